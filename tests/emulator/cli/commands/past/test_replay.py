"""``emulator replay`` against the real ``api`` and the real dispatch, over a copy of the past."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.base.errors import DoesNotExist
from emulator.cli.client import RestClient
from emulator.cli.commands.past.replay import chosen, replay
from shared.db.engine import past
from shared.db.engine.connection import rows, transaction
from shared.db.engine.past import Past
from tests.emulator.cli.commands.conftest import Postroom, serve, stop
from tests.emulator.harness import ROOT
from tests.support import answer, make_agent, make_session, put

AGENT = """
import json, sys
asked = json.load(sys.stdin)["messages"][-1]["text"]
failure = {"type": "error", "message": "no calendar"}
print(json.dumps(failure if "two" in asked else {"type": "text", "text": f"2: {asked}"}))
"""


TOKEN = "of-the-tests"  # a host without a leash for programs wants one


@pytest.fixture(scope="module")
def postroom(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postroom]:
    """An api and a dispatch, over a conversation that is past."""
    folder = tmp_path_factory.mktemp("past")
    process, served = serve(folder, POSTROOM_API_TOKEN=TOKEN)
    for text in ("one", "two", "three"):
        row = put(served.conn, text)
        answer(served.conn, f"then {text}", in_reply_to=row)
    served.conn.execute("UPDATE messages SET status = 'completed'")
    make_agent(served.conn, "reviewer")
    newest = past.newest_session(served.conn)
    with transaction(served.conn):
        past.mark(served.conn, Past("s3://b/p", "", "000000000000000b", "2026-11-23T01:14:15Z", newest_session=newest))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("POSTROOM_")}
    own = {"POSTROOM_DB": str(served.db), "POSTROOM_RUN_DIR": str(served.run_dir), "POSTROOM_MAX_ATTEMPTS": "1"}
    own |= {"POSTROOM_AGENTS_DIR": str(folder / "agents"), "POSTROOM_API_TOKEN": TOKEN}
    with (folder / "dispatch.log").open("wb") as log:
        dispatch = subprocess.Popen(
            [sys.executable, "-m", "infra.runner", "dispatch", "--port", "0"],
            cwd=ROOT, env=inherited | own, stdout=log, stderr=log,
        )  # fmt: skip
    yield served
    dispatch.terminate()
    dispatch.wait(60)
    stop(process, served)


@pytest.fixture(autouse=True)
def token(bare: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTROOM_API_TOKEN", TOKEN)


@pytest.fixture
def session(postroom: Postroom) -> str:
    return str(postroom.column("SELECT session_id FROM sessions WHERE replays IS NULL")[0])


def ids(postroom: Postroom) -> list[str]:
    return postroom.column("SELECT message_id FROM messages WHERE content ->> '$.replay_of' IS NULL ORDER BY id")


def originals(postroom: Postroom) -> list[tuple[object, ...]]:
    found = rows(postroom.conn, "SELECT * FROM messages WHERE content ->> '$.replay_of' IS NULL ORDER BY id")
    return found + rows(postroom.conn, "SELECT * FROM sessions WHERE replays IS NULL")


def test_the_same_messages_are_answered_by_another_agent(postroom: Postroom, session: str) -> None:
    before = originals(postroom)
    found = postroom.json("replay", session, "--agent", "reviewer")
    assert [each["message"] for each in found["messages"]] == ["one", "two", "three"]
    assert [each["then"]["answers"] for each in found["messages"]] == [["then one"], ["then two"], ["then three"]]
    assert [each["now"]["answers"] for each in found["messages"]] == [
        ["You said: one"], ["You said: two"], ["You said: three"]
    ]  # fmt: skip
    assert (found["then"]["agent"], found["now"]["agent"]) == ("assistant", "reviewer")
    assert originals(postroom) == before
    again = postroom.json("replay", session, "--agent", "reviewer")
    assert again["replay"] != found["replay"]  # a fresh session each time


@pytest.mark.parametrize("by_folder", [False, True])
def test_the_sentence_of_the_past_is_said_once(postroom: Postroom, session: str, by_folder: bool) -> None:
    """A command that finds the emulator by its folder has said it before the replay begins."""
    api = RestClient(postroom.url, TOKEN, past="this is the past" if by_folder else None)
    second = ids(postroom)[1]
    said = replay(api, session, agent="reviewer", begin=second, end=second).parts
    assert sum("it sends to nobody" in str(each) for each in said) == int(not by_folder)


def test_a_part_is_replayed_with_the_agent_of_then(postroom: Postroom, session: str) -> None:
    _, second, third = ids(postroom)
    found = postroom.json("replay", session, "--from", second)
    assert [each["message"] for each in found["messages"]] == ["two", "three"]
    assert found["now"]["agent"] == "assistant"
    found = postroom.json("replay", session, "--from", second, "--to", second)
    assert [each["message"] for each in found["messages"]] == ["two"]
    assert "has no message 'x'" in postroom.refused("replay", session, "--to", "x", code=66)
    assert third not in [each["messageId"] for each in found["messages"]]


def test_an_agent_is_made_like_the_one_of_then_and_its_failure_is_shown(
    postroom: Postroom, session: str, tmp_path: Path
) -> None:
    program = tmp_path / "agent.py"
    program.write_text(AGENT)
    done = postroom.run("replay", session, "--command", f"{sys.executable} {program}", code=1)
    assert "2: one" in done.stdout
    assert "2: three" in done.stdout  # the conversation goes on after a failure
    assert "(dead: no calendar)" in done.stdout
    assert "1 of the answers failed" in done.stdout
    assert "then: assistant (echo)" in done.stdout
    assert "now: assistant-command (command)" in done.stdout
    made = postroom.json("agents", "show", "assistant-command")
    assert made["config"] == {"command": [sys.executable, str(program)]}


def test_no_response_of_a_replay_is_given_away(postroom: Postroom, session: str) -> None:
    postroom.json("replay", session)
    told = postroom.refused("responses", "retry", "--all", code=1)
    assert "it sends to nobody" in told
    assert postroom.column("SELECT count(*) FROM responses WHERE status <> 'pending'") == [0]


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (("--agent", "reviewer", "--provider", "echo"), "use either"),
        (("--command", "x", "--provider", "echo"), "--command needs no --provider"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    postroom: Postroom, session: str, options: tuple[str, ...], part: str
) -> None:
    assert part in postroom.refused("replay", session, *options, code=64)


def test_an_unknown_agent_or_session_is_told(postroom: Postroom, session: str) -> None:
    assert "agent 'nobody' not found; known:" in postroom.refused("replay", session, "--agent", "nobody", code=66)
    postroom.refused("replay", "session_x", code=66)


def test_a_chat_stands_for_its_session(postroom: Postroom, session: str) -> None:
    (chat,) = postroom.column("SELECT chat_id FROM sessions WHERE session_id = :id", id=session)
    assert postroom.json("replay", str(chat))["session"] == session
    assert "no session was active in chat 99" in postroom.refused("replay", "99", code=66)


def test_a_chat_with_several_sessions_names_them(postroom: Postroom, session: str) -> None:
    _, other = make_session(postroom.conn, "reviewer")
    told = postroom.refused("replay", "1", code=64)
    postroom.conn.execute("UPDATE sessions SET status = 'closed', closed_at = 1 WHERE id = :id", {"id": other})
    assert "several sessions were active in chat 1" in told
    assert session in told


def test_an_agent_that_was_paused_then_is_told_at_once(postroom: Postroom, session: str) -> None:
    postroom.run("agents", "pause", "reviewer", "--reason", "on holiday")
    told = postroom.refused("replay", session, "--agent", "reviewer", code=1)
    assert "agent reviewer is paused, as it was then: on holiday" in told
    postroom.run("agents", "resume", "reviewer")
    assert len(postroom.json("replay", session, "--agent", "reviewer")["messages"]) == 3


def test_every_command_counts_from_the_instant_of_the_copy(postroom: Postroom, session: str) -> None:
    """Not from this machine's: what was said minutes before that instant is not months old."""
    at = 1_795_396_455_999  # the end of the second that the mark names
    last, made = at - 5 * 60_000, at - 26 * 3_600_000
    postroom.conn.execute("UPDATE sessions SET last_active = ? WHERE session_id = ?", (last, session))
    postroom.conn.execute("UPDATE messages SET created_at = ? WHERE message_id = ?", (made, ids(postroom)[0]))
    (line,) = [each for each in postroom.run("sessions", "list").stdout.splitlines() if each.startswith(session)]
    assert line.rstrip().endswith("5 min ago")
    listed = postroom.json("messages", "list", "--status", "completed", "--since", "27h", "--until", "25h")
    assert [each["id"] for each in listed] == ids(postroom)[:1]


def message(id_: str, **fields: object) -> dict[str, object]:
    return {"messageId": id_, "kind": "chat", "trigger": True, **fields}


def test_tasks_are_left_out_and_context_stays() -> None:
    every = [message("a"), message("b", kind="task"), message("c", trigger=False), message("d")]
    assert [each["messageId"] for each in chosen(every, None, None)] == ["a", "c", "d"]
    assert [each["messageId"] for each in chosen(every, "c", "d")] == ["c", "d"]
    with pytest.raises(DoesNotExist, match="name an earlier --timestamp"):
        chosen(every, "b", "c")
    assert json.dumps(chosen(every, "d", None)) == json.dumps([message("d")])
