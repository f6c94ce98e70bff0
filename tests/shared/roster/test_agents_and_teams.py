"""Agents and teams: created, changed, deleted and brought back."""

import pytest

from shared.conversation.inbound import pairing
from shared.core.errors import ConfigInvalid, NotFound, WrongState
from shared.db.engine.connection import rows, transaction
from shared.db.roster import agents, teams
from shared.db.roster.teams import Team
from shared.rest.admin import retire
from shared.roster import agents_and_teams
from tests.support import NOW, column, dump, make_agent, make_chat, plan, put, take, wire


def save(conn, agent_id, *, now_ms=NOW, zone="UTC", **changes):
    with transaction(conn):
        return agents_and_teams.save_agent(conn, agent_id, changes, timezone=zone, now_ms=now_ms)


def save_team(conn, team_id, **changes):
    with transaction(conn):
        return agents_and_teams.save_team(conn, team_id, changes, now_ms=NOW)


def delete(conn, agent_id):
    with transaction(conn):
        return retire.delete_agent(conn, agent_id, now_ms=NOW + 5)


def talk_to(conn, agent_id):
    """Leave a message that was answered."""
    put(conn, agent=agent_id)
    claim = take(conn, agent=agent_id)
    rows(
        conn,
        "UPDATE messages SET status = 'completed', claimed_by = NULL, lease = NULL WHERE id = :id",
        {"id": claim.batch[0].id},
    )


def test_a_new_agent_has_the_named_settings_and_defaults(conn):
    saved = save(conn, "coder", zone="Europe/Rome", instructions="Be brief.", batch_size=3, turn_timeout_ms=5000)
    expected = agents.Agent(
        "coder", "coder", instructions="Be brief.", timezone="Europe/Rome", turn_timeout_ms=5000, batch_size=3
    )
    assert (saved.agent, saved.is_new) == (expected, True)
    assert agents.get(conn, "coder") == expected


SETTINGS = {
    "name": "Coder",
    "provider": "command",
    "model": "m-1",
    "instructions": "Be brief.",
    "config": {"command": ["/bin/true"]},
    "folder": "teams/coder",
    "concurrency": 4,
    "timezone": "Europe/Rome",
    "turn_timeout_ms": 60_000,
    "idle_timeout_ms": 50_000,
    "tool_timeout_ms": 40_000,
    "output_limit_bytes": 2048,
    "memory_limit_mb": 64,
    "batch_size": 7,
    "resume_spoken": True,
    "drafts": True,
    "transcriber": "openai/whisper-1",
    "speaker": "cat",
}
OTHERS = {
    "name": "C",
    "provider": "echo",
    "model": None,
    "instructions": "",
    "config": {"command": ["/bin/false"]},
    "folder": None,
    "concurrency": 1,
    "timezone": "UTC",
    "turn_timeout_ms": None,
    "idle_timeout_ms": None,
    "tool_timeout_ms": None,
    "output_limit_bytes": None,
    "memory_limit_mb": None,
    "batch_size": None,
    "resume_spoken": False,
    "drafts": False,
    "transcriber": None,
    "speaker": "none",
}


@pytest.mark.parametrize("field", SETTINGS)
def test_a_change_of_one_setting_keeps_the_others(conn, field):
    save(conn, "coder", **SETTINGS)
    saved = save(conn, "coder", now_ms=NOW + 5, **{field: OTHERS[field]})
    assert not saved.is_new
    found = agents.get(conn, "coder")
    assert {name: getattr(found, name) for name in SETTINGS} == {**SETTINGS, field: OTHERS[field]}
    assert rows(conn, "SELECT created_at, updated_at FROM agents WHERE id = 'coder'") == [(NOW, NOW + 5)]


WRONG = {
    "no name": ({"name": ""}, "agent 'x': name: should have at least 1 character"),
    "a name of two lines": ({"name": "a\nb"}, "agent 'x': name: it must be one line of visible characters"),
    "a name that can't be seen": ({"name": " "}, "agent 'x': name: it must be one line of visible characters"),
    "a setting that JSON has not": ({"config": {"a": [float("inf")]}}, "agent 'x': config: it is stored as JSON"),
    "a date": ({"config": {"a": object()}}, "agent 'x': config: it is stored as JSON"),
    "an unknown provider": ({"provider": "claudius"}, "agent 'x': unknown provider 'claudius'; known: "),
    "a provider without its settings": ({"provider": "command"}, "command"),
    "an unknown setting": ({"colour": "red"}, "agent 'x': colour: there is no such setting; known: name, "),
    "no turns at once": ({"concurrency": 0}, "concurrency: should be greater than or equal to 1"),
    "a number in a text": ({"concurrency": "3"}, "concurrency: should be a valid integer"),
    "a zone of no place": ({"timezone": "Mars/Olympus"}, "Mars/Olympus"),
    "no time at all": ({"turn_timeout_ms": 99}, "turn_timeout_ms: should be greater than or equal to 100"),
    "hardly any memory": ({"memory_limit_mb": 15}, "memory_limit_mb: should be greater than or equal to 16"),
    "an empty batch": ({"batch_size": 0}, "batch_size: should be greater than or equal to 1"),
    "an absolute folder": ({"folder": "/etc"}, "folder: '/etc' is not below the agents' folder"),
    "a folder above": ({"folder": "a/../../b"}, "is not below the agents' folder"),
    "the folder of all": ({"folder": "."}, "is not below the agents' folder"),
    "a transcriber that gets no sound": ({"transcriber": "whisper-cli"}, "name the file with the sound by {sound}"),
    "a speaker of no host": ({"speaker": "openai/"}, "speaker: "),
    "no folder": ({"folder": ""}, "folder: a path of 1 to 200 visible characters"),
    "a folder that can't be seen": ({"folder": "a\x00b"}, "folder: a path of 1 to 200 visible characters"),
    "the folder of another agent": ({"folder": "./assistant//"}, "'assistant' of agent 'assistant' overlap"),
    "a folder inside that of another agent": ({"folder": "assistant/x"}, "'assistant' of agent 'assistant' overlap"),
}


@pytest.mark.parametrize(("changes", "sentence"), WRONG.values(), ids=WRONG)
def test_an_invalid_agent_is_refused_and_nothing_is_written(conn, changes, sentence):
    before = dump(conn)
    with pytest.raises(ConfigInvalid) as refused:
        save(conn, "x", **changes)
    assert sentence in str(refused.value)
    assert dump(conn) == before


@pytest.mark.parametrize("agent_id", ["", "X", "-x", "a b", "x" * 65, "../x", "x\n", "ä"])
def test_an_invalid_id_is_refused(conn, agent_id):
    with pytest.raises(ConfigInvalid, match="an agent's id is 1 to 64 of a-z"):
        save(conn, agent_id)


@pytest.mark.parametrize("agent_id", ["operator", "user"])
def test_an_agent_can_not_have_an_id_reserved_for_people(conn, agent_id):
    with pytest.raises(ConfigInvalid, match="take another id"):
        save(conn, agent_id)


def test_an_old_invalid_setting_does_not_block_another_change(conn):
    """An agent of an earlier release, whose provider is gone: its name can be changed all the same."""
    make_agent(conn, "old", provider="claudius", timezone="Mars/Olympus", folder="assistant")
    assert save(conn, "old", name="Old").agent.name == "Old"
    with pytest.raises(ConfigInvalid, match="unknown provider 'claudius'"):
        save(conn, "old", config={"a": 1})


def test_two_agents_share_a_folder_only_if_sharing_is_asked_for(conn):
    save(conn, "coder", folder="work/code")
    for folder in ("work/code", "work", "work/code/tests"):
        with pytest.raises(ConfigInvalid, match="of agent 'coder' overlap"):
            save(conn, "writer", folder=folder)
    assert save(conn, "writer", folder="work/code", share_folder=True).agent.folder == "work/code"
    assert save(conn, "writer", name="W").agent.folder == "work/code"  # said once is enough
    assert save(conn, "tester", folder="work/codes").agent.folder == "work/codes"


def test_a_new_agent_does_not_get_a_folder_in_use(conn):
    save(conn, "coder", folder="writer")
    with pytest.raises(ConfigInvalid, match="'writer' of agent 'coder'"):
        save(conn, "writer")


@pytest.mark.parametrize(("given", "stored"), [("a//b/./c", "a/b/c"), ("x/", None), ("x", None), ("x.y", "x.y")])
def test_a_folder_is_stored_normalised(conn, given, stored):
    assert save(conn, "x", folder=given).agent.folder == stored


def test_exactly_one_agent_is_the_default(conn):
    save(conn, "coder", default=True)
    assert (agents.default(conn).id, agents.get(conn, "assistant").is_default) == ("coder", False)
    with pytest.raises(WrongState, match="make another agent the default in its place"):
        save(conn, "coder", default=False)
    save(conn, "assistant", default=False)
    assert column(conn, "SELECT id FROM agents WHERE is_default = 1") == ["coder"]


def test_an_agent_without_sessions_is_deleted(conn):
    before = dump(conn)
    save(conn, "coder")
    wire(conn, make_chat(conn), "coder")
    rows(conn, "DELETE FROM chats")
    assert delete(conn, "coder") == "deleted"
    assert dump(conn) == before


@pytest.fixture
def retired(conn):
    """An agent that was talked to, and had everything that an agent can have."""
    save(conn, "coder", instructions="Be brief.", folder="code")
    save(conn, "writer")
    talk_to(conn, "coder")
    wire(conn, make_chat(conn), "coder")
    save_team(conn, "crew", agents=["writer", "coder"])
    rows(
        conn,
        """
        INSERT INTO destinations (agent, name, target_agent, created_at)
        VALUES ('writer', 'coder', 'coder', 1), ('coder', 'writer', 'writer', 1)
        """,
    )
    with transaction(conn):
        pairing.make(conn, "member", "coder", life_ms=1000, now_ms=NOW)
        pairing.make(conn, "owner", life_ms=1000, now_ms=NOW)
    assert delete(conn, "coder") == "retired"
    return conn


def test_an_agent_with_sessions_is_retired_and_its_messages_stay(retired):
    assert agents.get(retired, "coder") is None
    assert agents.find(retired, "coder").retired_at == NOW + 5
    assert [agent.id for agent in agents.every(retired)] == ["assistant", "writer"]
    assert column(retired, "SELECT agent FROM messages") == ["coder"]
    for table in ("wirings", "destinations"):
        assert column(retired, f"SELECT agent FROM {table}") == []
    assert teams.get(retired, "crew").agents == ("writer",)
    assert column(retired, "SELECT status FROM pairings ORDER BY id") == ["revoked", "open"]
    with pytest.raises(NotFound, match="agent 'coder' not found; known: assistant, writer"):
        delete(retired, "coder")


def test_a_retired_agent_is_in_no_team(retired):
    with pytest.raises(ConfigInvalid, match="there is no agent coder"):
        save_team(retired, "crew", agents=["writer", "coder"])


def test_a_retired_agent_comes_back_as_it_was_with_the_changes(retired):
    saved = save(retired, "coder", name="Coder II")
    assert (saved.is_new, saved.agent.name, saved.agent.instructions) == (False, "Coder II", "Be brief.")
    assert agents.get(retired, "coder") == saved.agent
    assert saved.agent.retired_at is None


def test_the_folder_of_a_retired_agent_is_kept_for_it(retired):
    with pytest.raises(ConfigInvalid, match=r"'code' of agent 'coder' \(retired, and may come back\)"):
        save(retired, "writer", folder="code")


def test_a_retired_agent_does_not_come_back_where_a_team_has_its_id(retired):
    save_team(retired, "coder", agents=["writer"])
    with pytest.raises(ConfigInvalid, match="a team has this id"):
        save(retired, "coder")


WAITING = {"pending": {}, "planned": {"process_after": NOW + 10**9}, "paused": {"status": "paused"}}


@pytest.mark.parametrize("fields", WAITING.values(), ids=WAITING)
def test_an_agent_with_open_messages_stays_and_the_error_counts_them(conn, fields):
    save(conn, "coder")
    for _ in range(2):
        row = put(conn, agent="coder", process_after=fields.get("process_after"))
        rows(conn, "UPDATE messages SET status = :s WHERE id = :id", {"s": fields.get("status", "pending"), "id": row})
    with pytest.raises(WrongState, match=r"2 messages wait for agent 'coder'.*cancel"):
        delete(conn, "coder")
    rows(conn, "UPDATE messages SET status = 'cancelled'")
    assert delete(conn, "coder") == "retired"


def test_an_agent_with_a_running_turn_stays_and_one_with_context_alone_goes(conn):
    save(conn, "coder")
    put(conn, agent="coder", trigger=False)
    put(conn, agent="coder", chat="200")
    claim = take(conn, agent="coder", chat="200")
    with pytest.raises(WrongState, match="1 message waits for agent 'coder'"):
        delete(conn, "coder")
    rows(
        conn,
        "UPDATE messages SET status = 'dead', claimed_by = NULL, lease = NULL WHERE id = :id",
        {"id": claim.batch[0].id},
    )
    assert delete(conn, "coder") == "retired"


def test_the_open_messages_of_an_agent_are_counted_by_indexes(conn):
    found = " ".join(plan(conn, agents.COUNT_OPEN_MESSAGES, agent="coder"))
    assert "messages_open (agent=?)" in found
    assert "messages_resting" in found


def test_neither_the_default_nor_a_leader_can_be_deleted(conn):
    with pytest.raises(WrongState, match=r"'assistant' is the default.*make another agent the default first"):
        delete(conn, "assistant")
    save(conn, "coder")
    talk_to(conn, "coder")
    save_team(conn, "crew", agents=["coder"])
    with pytest.raises(WrongState, match="leads the team 'crew'"):
        delete(conn, "coder")
    assert agents.get(conn, "coder") is not None


NAMES = {
    "Code Review": "code-review",
    "  Ölfarbe & Co. ": "olfarbe-co",
    "!!!": "agent",
    "Assistant": "assistant-2",
    "user": "user-2",
    "x" * 80: "x" * 60,
}


@pytest.mark.parametrize(("name", "agent_id"), NAMES.items())
def test_a_name_makes_an_unused_id(conn, name, agent_id):
    assert agents_and_teams.free_id(conn, name) == agent_id
    save(conn, agent_id)


def test_an_id_is_free_if_neither_a_team_nor_a_retired_agent_has_it(retired):
    save_team(retired, "coder-2", agents=["writer"])
    assert agents_and_teams.free_id(retired, "Coder") == "coder-3"


def test_a_team_is_led_by_its_first_agent_and_a_change_keeps_the_rest(conn):
    for name in ("coder", "writer"):
        save(conn, name)
    assert save_team(conn, "crew", agents=["writer", "coder", "writer"]) == Team(
        "crew", "crew", "writer", ("writer", "coder")
    )
    assert save_team(conn, "crew", name="The Crew") == Team("crew", "The Crew", "writer", ("writer", "coder"))
    assert save_team(conn, "crew", leader="coder") == Team("crew", "The Crew", "coder", ("writer", "coder"))
    assert save_team(conn, "crew", agents=["coder"]) == Team("crew", "The Crew", "coder", ("coder",))
    assert teams.every(conn) == [Team("crew", "The Crew", "coder", ("coder",))]


TEAMS = {
    "a name of two lines": ("crew", {"name": "a\nb", "agents": ["coder"]}, "team 'crew': name: it must be one line"),
    "no members": ("crew", {}, "team 'crew': agents: a new team needs at least one"),
    "an empty list": ("crew", {"agents": []}, "team 'crew': agents: should have at least 1 item"),
    "a stranger": ("crew", {"agents": ["nobody"]}, "team 'crew': there is no agent nobody"),
    "a leader from elsewhere": ("crew", {"agents": ["coder"], "leader": "assistant"}, "its leader 'assistant' is not"),
    "an agent's id": ("coder", {"agents": ["coder"]}, "an agent has this id"),
    "an id in capitals": ("Crew", {"agents": ["coder"]}, "a team's id is"),
    "an unknown setting": ("crew", {"members": ["coder"]}, "members: there is no such setting; known: name, agents"),
}


@pytest.mark.parametrize(("team_id", "changes", "sentence"), TEAMS.values(), ids=TEAMS)
def test_an_invalid_team_is_refused(conn, team_id, changes, sentence):
    save(conn, "coder")
    with pytest.raises(ConfigInvalid) as refused:
        save_team(conn, team_id, **changes)
    assert sentence in str(refused.value)
    assert teams.every(conn) == []


def test_a_team_is_deleted_once(conn):
    save_team(conn, "crew", agents=["assistant"])
    with transaction(conn):
        agents_and_teams.delete_team(conn, "crew")
    with pytest.raises(NotFound, match="team 'crew' not found; known: none"), transaction(conn):
        agents_and_teams.delete_team(conn, "crew")
