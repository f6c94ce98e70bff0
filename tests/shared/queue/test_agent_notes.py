"""What an agent reads in its next turn about what it said."""

import json

import pytest

from shared.channels import outgoing_files
from shared.channels.base import OutgoingFile
from shared.core.errors import ChatGone, OutcomeUnknown, PermanentError, RetryableError
from shared.db.engine.connection import rows, transaction
from shared.db.platforms.channel_outages import ChannelOutage
from shared.db.queue import dead_responses, responses
from shared.db.roster import destinations
from shared.queue import deliveries
from shared.queue.delivery_verdicts import DeliveryPolicy
from tests.support import LEASE, NOW, answer, column, make_chat, make_session, put, take, texts
from tests.support import row as row_of

POLICY = DeliveryPolicy(max_attempts=5, base_ms=5000, cap_ms=300_000, unknown_sends="hold", jitter=0.0)
NOTES = "SELECT message FROM messages WHERE kind = 'system' ORDER BY id"
BLOCKED = PermanentError("Forbidden: bot was blocked by the user")
DAY_MS = 24 * 60 * 60 * 1000


def said(conn, text="See you at 7.", *, chat="100", **fields):
    """A response of the agent in its session of chat 100, claimed; its row."""
    _, session = make_session(conn)
    row = answer(conn, text, chat=chat, agent="assistant", session_id=session, **{"in_reply_to": 1, **fields})
    with transaction(conn):
        return responses.claim(conn, row, token="send_a", now_ms=NOW, lease_ms=LEASE)


def fail(conn, response, error=BLOCKED):
    with transaction(conn):
        deliveries.fail(conn, response, error, POLICY, now_ms=NOW)


def test_the_next_turn_of_the_session_reads_once_what_did_not_arrive_and_why(conn):
    put(conn, "when?")
    fail(conn, said(conn))
    put(conn, "hello?")
    claim = take(conn)
    note = (
        "Your answer did not reach the person: Forbidden: bot was blocked by the user.\n"
        "It is not sent again, unless the operator does so.\n"
        "It was:\nSee you at 7."
    )
    assert texts(claim) == ["when?", note, "hello?"]
    assert [(each.kind, each.trigger, each.sender) for each in claim.batch][1] == ("system", False, "postroom")


def test_it_starts_no_turn_of_its_own(conn):
    put(conn, "when?")
    rows(conn, "UPDATE messages SET status = 'completed'")
    fail(conn, said(conn))
    assert len(column(conn, NOTES)) == 1
    assert take(conn) is None


def test_what_is_tried_again_is_not_told(conn):
    put(conn)
    fail(conn, said(conn), RetryableError("reset"))
    assert column(conn, NOTES) == []


ENDS = {
    "the bot was blocked": (ChatGone("blocked by the user"), "did not reach the person: blocked by the user."),
    "nobody knows": (OutcomeUnknown("the platform was silent"), "perhaps did not reach the person: the platform was"),
}


@pytest.mark.parametrize(("error", "told"), ENDS.values(), ids=ENDS)
def test_it_says_how_sure_that_is(conn, error, told):
    put(conn)
    fail(conn, said(conn), error)
    assert told in column(conn, NOTES)[0]


def test_what_the_platform_was_down_for_too_long_is_told_too(conn):
    put(conn)
    _, session = make_session(conn)
    answer(conn, "old", agent="assistant", session_id=session, in_reply_to=1, now_ms=NOW - 2 * DAY_MS)
    outage = ChannelOutage("telegram", NOW - 2 * DAY_MS, "server_error", "502 Bad Gateway", NOW)
    with transaction(conn):
        assert deliveries.give_up(conn, outage, POLICY, now_ms=NOW, limit=10) == 1
    (note,) = column(conn, NOTES)
    assert note.startswith("Your answer did not reach the person: 502 Bad Gateway; given up after 24 hours")


def test_a_row_that_cannot_be_used_is_told_at_its_end(conn):
    put(conn)
    _, session = make_session(conn)
    row = answer(conn, "x", agent="assistant", session_id=session, in_reply_to=1)
    rows(conn, "UPDATE responses SET retry_count = 4")
    with transaction(conn):
        deliveries.set_aside(conn, row, ValueError("no"), POLICY, now_ms=NOW)
    assert column(conn, "SELECT status FROM responses") == ["dead"]
    assert len(column(conn, NOTES)) == 1


OTHERS = {
    "a notice of ours": {"agent": None, "session_id": None},
    "an ending without a text": {"text": "", "content": {"ends_wait": True}},
    "nothing at all": {"text": " "},
}


@pytest.mark.parametrize("fields", OTHERS.values(), ids=OTHERS)
def test_what_the_agent_did_not_say_is_not_told(conn, fields):
    put(conn)
    _, session = make_session(conn)
    values = {"agent": "assistant", "session_id": session, "in_reply_to": 1, **fields}
    row = answer(conn, values.pop("text", "x"), **values)
    with transaction(conn):
        response = responses.claim(conn, row, token="send_a", now_ms=NOW, lease_ms=LEASE)
    fail(conn, response)
    assert column(conn, "SELECT status FROM responses") == ["dead"]
    assert column(conn, NOTES) == []


KINDS = {
    "a reaction": ({"text": "", "content": {"reaction": {"emoji": "👍", "message_id": "7", "row": None}}}, "reaction"),
    "a change": ({"content": {"edits": "7"}}, "change of a message"),
}


@pytest.mark.parametrize(("fields", "what"), KINDS.values(), ids=KINDS)
def test_it_says_what_it_was(conn, fields, what):
    put(conn)
    fail(conn, said(conn, **fields))
    assert column(conn, NOTES)[0].startswith(f"Your {what} did not reach the person")


def test_a_message_to_another_chat_is_named_as_the_agent_calls_it(conn):
    put(conn)
    chat = make_chat(conn, "200")
    with transaction(conn):
        destinations.put(conn, "assistant", name="ann", chat=chat, now_ms=NOW)
    fail(conn, said(conn, chat="200", in_reply_to=None))
    assert column(conn, NOTES)[0].startswith("Your message to “ann” did not reach the person")


def test_its_files_are_named_without_a_path(conn, tmp_path):
    put(conn)
    file = OutgoingFile(tmp_path / "report.pdf", "report.pdf", "application/pdf", 1, "document")
    fail(conn, said(conn, files=outgoing_files.encode([file])))
    assert column(conn, NOTES)[0].endswith("Its files: report.pdf")


def test_a_session_that_began_anew_reads_it_in_its_successor(conn):
    put(conn)
    response = said(conn)
    old = response.session_id
    rows(conn, "UPDATE sessions SET status = 'closed' WHERE id = :id", {"id": old})
    _, new = make_session(conn)
    fail(conn, response)
    assert new != old
    assert column(conn, "SELECT session_id FROM messages WHERE kind = 'system'") == [new]


def test_the_operator_who_sends_it_again_takes_the_note_back(conn):
    put(conn)
    response = said(conn)
    other = said(conn, "another one")
    fail(conn, response)
    fail(conn, other)
    with transaction(conn):
        dead_responses.retry(conn, response.id, now_ms=NOW)
    found = rows(conn, "SELECT status, content FROM messages WHERE kind = 'system' ORDER BY id")
    assert [(status, json.loads(content)) for status, content in found] == [
        ("cancelled", {"undelivered": response.id, "origin": response.message_id}),
        ("pending", {"undelivered": other.id, "origin": other.message_id}),
    ]
    assert row_of(conn, "responses", response.id)["status"] == "pending"


def test_who_forgets_a_person_finds_what_agents_were_told_because_of_them(conn):
    """``spark_jobs.mart.traces`` looks for the origin."""
    put(conn)
    asked = column(conn, "SELECT message_id FROM messages")[0]
    fail(conn, said(conn, message_id=asked))
    fail(conn, said(conn, content={"origin": "telegram_a"}))
    found = column(conn, "SELECT content ->> '$.origin' FROM messages WHERE kind = 'system' ORDER BY id")
    assert found == [asked, "telegram_a"]
