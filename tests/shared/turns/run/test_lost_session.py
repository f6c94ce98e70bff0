"""A session that its provider lost begins anew from our own history, in real turns of a real program."""

import asyncio
import json
import sys

import pytest

from shared.agents.base import Failed, Init, Result, Text, Turn
from shared.db.engine.connection import rows, transaction
from shared.db.queue import agent_messages
from shared.db.queue.agent_messages import AgentMessage
from shared.db.roster import agents
from shared.queue import forgetting
from shared.turns.run import lost_session
from shared.turns.run.agent_run import BEGUN_ANEW
from shared.turns.run.lost_session import SessionStory
from tests.shared.turns.run.scripted_provider import worked
from tests.support import NOW, column, make_agent, make_session, put

SAID = "SELECT message FROM responses ORDER BY id"

# It knows its session only until somebody says "forget". It answers how it began, and with what before the batch.
PROGRAM = """
import json, pathlib, sys
turn = json.load(sys.stdin)
text, kept = turn["messages"][-1]["text"], pathlib.Path("kept")
if turn["continuation"] and not kept.exists():
    print(json.dumps({"type": "error", "message": "no such session", "code": "session_lost"}))
    sys.exit()
kept.touch()
print(json.dumps({"type": "init", "continuation": turn["continuation"] or "s-" + str(turn["attempt"])}))
if text == "forget":
    kept.unlink()
if text == "what":
    text = turn["prompt"].replace("<", "(")
print(json.dumps({"type": "result", "text": text}))
"""


@pytest.fixture(autouse=True)
def coder(conn, environment):
    make_agent(conn, "coder", provider="command", config={"command": [sys.executable, "-I", "-S", "-c", PROGRAM]})


def say(conn, *texts, **fields):
    for text in texts:
        put(conn, text, agent="coder", **fields)
        asyncio.run(worked())


def test_a_lost_session_goes_on_from_our_history_and_says_so(conn):
    say(conn, "my name is Ana <b>", "forget", "what")
    shown = column(conn, SAID)[-1]
    assert "This was said in it before" in shown
    assert 'sender="Ana"' in shown
    assert "my name is Ana &lt;b&gt;" in shown
    assert 'sender="you"' in shown
    assert shown.endswith(f"\n\n{BEGUN_ANEW}")
    assert rows(conn, "SELECT status, retry_count FROM messages") == [("completed", 0)] * 3
    assert len(column(conn, "SELECT 1 FROM events WHERE type = 'session_begun_anew'")) == 1
    assert rows(conn, "SELECT continuation, continued_by FROM sessions") == [("s-1", "command")]


def test_a_session_that_is_lost_before_anything_was_said_in_it_is_no_loss_for_the_chat(conn):
    """A kill in the first turn, before the program has kept its session."""
    make_session(conn, "coder")
    rows(conn, "UPDATE sessions SET continuation = 's-killed', continued_by = 'command'")
    say(conn, "what")
    assert column(conn, SAID)[-1].startswith('(context timezone="UTC"/>')
    assert BEGUN_ANEW not in column(conn, SAID)[-1]
    assert len(column(conn, "SELECT 1 FROM events WHERE type = 'session_begun_anew'")) == 1


def test_a_tag_of_the_history_does_nothing_when_it_is_repeated(conn):
    tag = "[send_file: kept]"
    say(conn, f"remember {tag}", "forget", "what")
    assert tag in column(conn, SAID)[-1]
    assert "was not sent" not in column(conn, SAID)[-1]


def test_a_session_that_was_never_lost_has_no_history_before_it(conn):
    say(conn, "hello", "what")
    assert column(conn, SAID)[-1].startswith('(context timezone="UTC"/>')


def test_what_was_said_in_another_chat_is_not_in_it(conn):
    say(conn, "a secret of chat 200", chat="200")
    say(conn, "forget", "what")
    assert "secret" not in column(conn, SAID)[-1]


def test_a_continuation_of_another_provider_is_not_resumed(conn):
    say(conn, "my name is Ana")
    before = agents.get(conn, "coder")
    rows(conn, "UPDATE agents SET provider = 'echo', config = '{}' WHERE id = 'coder'")
    say(conn, "!count")
    assert column(conn, SAID)[-1] == "This is turn 1 of our session."
    config = json.dumps(dict(before.config))
    rows(conn, "UPDATE agents SET provider = 'command', config = :c WHERE id = 'coder'", {"c": config})
    say(conn, "what")
    assert "my name is Ana" in column(conn, SAID)[-1]
    assert column(conn, "SELECT continued_by FROM sessions") == ["command"]


def test_a_session_of_another_provider_is_told_in_the_story_only(conn):
    changes = "SELECT message_id, session_id IS NOT NULL, data FROM events WHERE type = 'session_changed_provider'"
    say(conn, "my name is Ana")
    rows(conn, "UPDATE agents SET provider = 'echo', config = '{}' WHERE id = 'coder'")
    assert rows(conn, changes) == []
    say(conn, "!count", "!count")
    message = column(conn, "SELECT message_id FROM messages ORDER BY id")[1]
    (told,) = rows(conn, changes)
    assert told[:2] == (message, 1)
    assert json.loads(told[2]) == {"provider_before": "command", "provider": "echo"}
    assert column(conn, SAID)[1:] == ["This is turn 1 of our session.", "This is turn 2 of our session."]
    assert column(conn, "SELECT 1 FROM events WHERE type = 'session_begun_anew'") == []


def test_what_a_person_had_forgotten_is_in_no_session_of_the_program_and_the_rest_is_given_to_a_fresh_one(conn):
    """A group: Ben writes on after Ana had what she said forgotten."""
    say(conn, "my name is Ana", sender_id="5", sender="Ana")
    say(conn, "I am Ben", sender_id="6", sender="Ben")
    with transaction(conn):
        forgetting.forget(conn, ["coder"], "telegram", "5", now_ms=NOW)
    say(conn, "what", sender_id="6", sender="Ben")
    shown = column(conn, SAID)[-1]
    assert "I am Ben" in shown
    assert "Ana" not in shown
    assert BEGUN_ANEW not in shown
    assert rows(conn, "SELECT continuation, continued_by FROM sessions") == [("s-1", "command")]


def test_lines_of_an_earlier_release_are_found_by_their_message(conn):
    _, session = make_session(conn, "coder")
    put(conn, "old", agent="coder")
    old = column(conn, "SELECT message_id FROM messages")[0]
    lines = [AgentMessage("coder", "user", "telegram", "Ana", id_, id_, NOW) for id_ in (old, "telegram_gone0000")]
    with transaction(conn):
        agent_messages.append(conn, lines)
    assert [line.message_id for line in agent_messages.of_session(conn, "coder", session, limit=9)] == [old]


class Forgetful:
    """A provider that does not know its session, or never."""

    def __init__(self, *first):
        self.first = first
        self.turns = []

    async def run(self, turn):
        self.turns.append(turn)
        for event in self.first if len(self.turns) == 1 else (Init("new"), Result("hi")):
            yield event


def turn(tmp_path, **fields):
    values = {"continuation": "old", "prompt": "<message/>", "instructions": "", "config": {}, "model": None}
    return Turn(agent="a", folder=tmp_path, session="session_a", messages=(), attempt=1, **{**values, **fields})


def events(provider, given):
    story = SessionStory()

    async def all_of():
        return [event async for event in lost_session.run(provider, given, list, story)]

    return asyncio.run(all_of()), story.begun_anew


LOST = Failed("gone", code="session_lost")


def test_a_session_is_begun_anew_once(tmp_path):
    provider = Forgetful(LOST)
    assert events(provider, turn(tmp_path)) == ([Init("new"), Result("hi")], True)
    assert [each.continuation for each in provider.turns] == ["old", None]


KEPT = {
    "another failure": ({}, (Failed("x"),)),
    "a session that began with this turn": ({"continuation": None}, (LOST,)),
    "a turn that has said something": ({}, (Text("hi"), LOST)),
}


@pytest.mark.parametrize(("fields", "first"), KEPT.values(), ids=KEPT)
def test_other_ends_stay(tmp_path, fields, first):
    provider = Forgetful(*first)
    assert events(provider, turn(tmp_path, **fields)) == (list(first), False)
    assert len(provider.turns) == 1
