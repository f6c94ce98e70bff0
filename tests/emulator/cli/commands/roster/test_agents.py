"""``emulator agents`` and ``emulator teams``."""

from pathlib import Path

import pytest

from tests.emulator.cli.commands.conftest import Postroom


def test_agents_are_listed_with_the_default_marked(postroom: Postroom) -> None:
    (line,) = [line for line in postroom.run("agents", "list").stdout.splitlines() if line.startswith("assistant")]
    assert line.split() == ["assistant", "Assistant", "echo", "1", "UTC", "default"]
    assert postroom.json("agents", "list")["assistant"]["provider"] == "echo"


def test_set_creates_an_agent_and_then_changes_only_the_named_settings(postroom: Postroom) -> None:
    made = postroom.run("agents", "set", "coder", "--name", "Coder", "--concurrency", "3", "--turn-timeout", "90s")
    assert "Agent coder is created." in made.stdout
    changed = postroom.run("agents", "set", "coder", "--model", "big", "--config", '{"a": [1]}', "--batch-size", "4")
    assert changed.stdout == "Agent coder: model, config, batch_size set.\n"

    row = "SELECT json_array(name, model, concurrency, json(config), turn_timeout_ms, batch_size) FROM agents"
    assert postroom.column(f"{row} WHERE id = 'coder'") == ['["Coder","big",3,{"a":[1]},90000,4]']

    postroom.run("agents", "set", "coder", "--model", "", "--turn-timeout", "", "--batch-size", "")
    assert postroom.column(f"{row} WHERE id = 'coder'") == ['["Coder",null,3,{"a":[1]},null,null]']


def test_show_prints_every_setting_of_an_agent(postroom: Postroom, tmp_path: Path) -> None:
    (tmp_path / "told.md").write_text("Be brief.\nBe kind.\n")
    postroom.run("agents", "set", "writer", "--instructions-file", str(tmp_path / "told.md"), "--folder", "desk/one")

    lines = postroom.run("agents", "show", "writer").stdout.splitlines()

    assert lines[0].split() == ["agent", "writer"]
    assert any(line.startswith("folder") and line.endswith("/agents/desk/one") for line in lines)
    assert lines[-2].split(maxsplit=1) == ["instructions", "Be brief."]
    assert lines[-1] == " " * lines[-2].index("Be") + "Be kind."
    postroom.run("agents", "set", "writer", "--folder", "")
    assert postroom.column("SELECT folder FROM agents WHERE id = 'writer'") == [None]


def test_instructions_may_come_from_standard_input(postroom: Postroom) -> None:
    postroom.run("agents", "set", "listener", "--instructions-file", "-", input="from a pipe")
    assert postroom.column("SELECT instructions FROM agents WHERE id = 'listener'") == ["from a pipe"]


def test_a_new_default_agent_replaces_the_old_one(postroom: Postroom) -> None:
    postroom.run("agents", "set", "front", "--default")
    assert postroom.column("SELECT id FROM agents WHERE is_default = 1") == ["front"]
    assert "front" in postroom.refused("agents", "delete", "front", code=1)
    postroom.run("agents", "set", "assistant", "--default")
    assert postroom.run("agents", "delete", "front").stdout == "Agent front is deleted.\n"
    assert "front" not in postroom.json("agents", "list")


def test_auto_says_that_it_chooses_at_the_next_turn(postroom: Postroom) -> None:
    note = "At its next turn dispatch chooses a provider that is installed and has a key; the agent keeps it."
    assert note in postroom.run("agents", "set", "front", "--provider", "auto").stdout
    assert "auto (nothing chosen yet)" in postroom.run("agents", "show", "front").stdout
    postroom.conn.execute("UPDATE agents SET chosen_provider = 'claude' WHERE id = 'front'")
    assert "auto (claude)" in postroom.run("agents", "show", "front").stdout
    postroom.run("agents", "delete", "front")


def test_other_models_are_set_and_taken_away(postroom: Postroom) -> None:
    postroom.run("agents", "set", "front", "--models", "sonnet, haiku")
    assert postroom.json("agents", "show", "front")["models"] == ["sonnet", "haiku"]
    postroom.run("agents", "set", "front", "--models", "")
    assert postroom.json("agents", "show", "front")["models"] == []
    postroom.run("agents", "delete", "front")


def test_set_restores_a_retired_agent_and_says_so(postroom: Postroom) -> None:
    postroom.run("agents", "set", "veteran")
    postroom.conn.execute("UPDATE agents SET retired_at = 1 WHERE id = 'veteran'")
    assert "Agent veteran is restored. " in postroom.run("agents", "set", "veteran").stdout
    assert postroom.run("agents", "set", "veteran").stdout == "Agent veteran is unchanged.\n"


REFUSED = {
    "nobody of that id": (["agents", "show", "zoe"], 66, "agent 'zoe' not found; known: assistant"),
    "nobody to delete": (["agents", "delete", "zoe"], 66, "zoe"),
    "an id that can be none": (["agents", "set", "Zoë"], 65, "1 to 64 of a-z"),
    "a way up in the id": (["agents", "set", "../teams/x"], 65, "'../teams/x' is not an id"),
    "a provider nobody knows": (["agents", "set", "x", "--provider", "y"], 65, "known: "),
    "a folder outside": (["agents", "set", "x", "--folder", "../y"], 65, "folder"),
    "no JSON": (["agents", "set", "x", "--config", "{"], 64, "--config is not JSON"),
    "JSON that is no object": (["agents", "set", "x", "--config", "[]"], 64, "a JSON object, such as"),
    "no amount of memory": (["agents", "set", "x", "--memory-limit", "much"], 64, "--memory-limit must be a whole"),
    "no duration": (["agents", "set", "x", "--turn-timeout", "soon"], 64, "500ms or 10s"),
    "no number": (["agents", "set", "x", "--batch-size", "-1"], 64, "must be a whole number, not '-1'"),
    "two instructions": (
        ["agents", "set", "x", "--instructions", "a", "--instructions-file", "b"], 64, "use only one of them",
    ),
    "a file that is not there": (["agents", "set", "x", "--instructions-file", "/no/where"], 66, "/no/where can't"),
    "a team of nobody": (["teams", "set", "x", "--agents", "zoe"], 65, "zoe"),
    "a team without agents": (["teams", "set", "x"], 65, "agents"),
    "no such team": (["teams", "show", "x"], 66, "team 'x' not found"),
    "no such team to delete": (["teams", "delete", "x"], 66, "x"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "code", "sentence"), REFUSED.values(), ids=REFUSED)
def test_an_impossible_command_is_one_sentence_and_creates_nothing(
    postroom: Postroom, arguments: list[str], code: int, sentence: str
) -> None:
    said = postroom.refused(*arguments, code=code)
    assert sentence in said
    assert said.count("\n") == 1
    assert postroom.column("SELECT id FROM agents WHERE id = 'x' UNION SELECT id FROM teams WHERE id = 'x'") == []


def test_teams_are_created_changed_shown_and_deleted(postroom: Postroom) -> None:
    for agent in ("one", "two"):
        postroom.run("agents", "set", agent)
    assert postroom.run("teams", "set", "dev", "--agents", "one, two").stdout == "Team dev: one, two; one leads.\n"
    assert postroom.run("teams", "set", "dev", "--leader", "two").stdout == "Team dev: one, two; two leads.\n"
    assert postroom.run("teams", "show", "dev").stdout.splitlines()[-1].split(maxsplit=1) == ["agents", "one, two"]
    assert postroom.run("teams", "list").stdout.splitlines()[-1].split() == ["dev", "dev", "two", "one,", "two"]
    assert postroom.run("teams", "delete", "dev").stdout == "Team dev is deleted; its agents stay.\n"
    assert "teams set ID" in postroom.run("teams", "list").stdout, "an empty list says how to create one"


def test_pause_and_resume_of_an_agent_and_what_shows_it(postroom: Postroom) -> None:
    postroom.run("agents", "set", "sleeper")
    said = postroom.run("agents", "pause", "sleeper", "--reason", "on holiday").stdout
    assert "Agent sleeper is paused. To go on: " in said
    assert "agents resume sleeper" in said
    assert postroom.refused("agents", "pause", "sleeper", code=1)
    listed = postroom.run("agents", "list").stdout.splitlines()
    (line,) = [line for line in listed if line.startswith("sleeper")]
    assert line.endswith("paused: by_hand")
    assert [line for line in listed if line.startswith("Agent sleeper is paused: on holiday. To go on: ")]
    assert "on holiday" in postroom.run("agents", "show", "sleeper").stdout
    queue = postroom.run("queue").stdout.splitlines()
    assert [line for line in queue if line.startswith("Agent sleeper is paused: on holiday. To go on: ")]
    assert postroom.json("queue")["paused"]["sleeper"]["code"] == "by_hand"

    assert postroom.run("agents", "resume", "sleeper").stdout == "Agent sleeper goes on.\n"
    assert postroom.run("agents", "resume", "sleeper").stdout == "Agent sleeper was not paused.\n"
    assert "sleeper" not in postroom.run("queue").stdout
    assert postroom.column("SELECT agent FROM agent_pauses") == []
    postroom.refused("agents", "pause", "nobody", code=66)
