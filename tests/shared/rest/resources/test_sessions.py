"""Sessions over the API: read, reset, replayed and compared."""

import pytest

from shared.db.engine.connection import transaction
from shared.db.queue import sessions
from shared.queue import turns
from shared.queue.turns import TurnReply
from tests.api_client import ask, get, post
from tests.support import NOW, column, dump, make_agent, put, take, texts


@pytest.fixture
def session(conn):
    """The id of a session with two answered messages and a pending one."""
    put(conn, "one")
    put(conn, "two")
    claim = take(conn)
    with transaction(conn):
        said = [TurnReply(f"answer {asked.message}", asked) for asked in claim.asked]
        turns.settle(conn, claim, said, "7", now_ms=NOW + 5)
    put(conn, "waits")
    put(conn, "context", trigger=False)
    return sessions.known(conn, claim.session_id).session_id


def test_a_session_is_shown_with_its_open_messages(serving, session):
    reply = get(serving, f"/api/sessions/{session}")

    assert reply.json() == {
        "id": 1,
        "sessionId": session,
        "agent": "assistant",
        "chatId": 1,
        "threadId": None,
        "privateTo": None,
        "status": "active",
        "replays": None,
        "pending": 1,
        "processing": 0,
        "context": 1,
        "createdAt": NOW,
        "lastActive": NOW + 5,
        "closedAt": None,
    }


def test_sessions_are_listed_newest_first_and_filtered(serving, conn, session):
    make_agent(conn, "coder")
    put(conn, "elsewhere", agent="coder")
    post(serving, {}, f"/api/sessions/{session}/reset")

    def listed(query):
        return [(each["agent"], each["status"]) for each in get(serving, f"/api/sessions{query}").json()]

    assert listed("") == [("assistant", "active"), ("coder", "active"), ("assistant", "closed")]
    assert listed("?agent=coder") == [("coder", "active")]
    assert listed("?status=closed") == [("assistant", "closed")]
    assert listed("?chatId=1&limit=1") == [("assistant", "active")]
    assert listed("?chatId=2") == []
    assert listed("?before=2") == [("assistant", "closed")]


def test_the_messages_of_a_session_have_their_answers(serving, session):
    said = get(serving, f"/api/sessions/{session}/messages").json()

    assert [(each["message"], each["status"], each["answers"]) for each in said] == [
        ("one", "completed", ["answer one"]),
        ("two", "completed", ["answer two"]),
        ("waits", "pending", []),
        ("context", "pending", []),
    ]
    newest = get(serving, f"/api/sessions/{session}/messages?limit=2").json()
    assert [each["message"] for each in newest] == ["waits", "context"]
    before = get(serving, f"/api/sessions/{session}/messages?before={newest[0]['id']}").json()
    assert [each["message"] for each in before] == ["one", "two"]


def test_a_reset_replaces_the_session_by_a_new_one(serving, session):
    reply = post(serving, {}, f"/api/sessions/{session}/reset")

    assert reply.status_code == 200
    fresh = reply.json()["sessionId"]
    assert reply.json() == {"ok": True, "sessionId": fresh, "closed": session}
    old, new = (get(serving, f"/api/sessions/{each}").json() for each in (session, fresh))
    assert (old["status"], old["pending"], old["context"]) == ("closed", 1, 0)
    assert old["closedAt"] is not None
    assert (new["status"], new["pending"], new["chatId"]) == ("active", 0, 1)


def test_a_session_is_reset_once(serving, conn, session):
    post(serving, {}, f"/api/sessions/{session}/reset")
    before = dump(conn)

    reply = post(serving, {}, f"/api/sessions/{session}/reset")

    assert (reply.status_code, reply.json()) == (409, {"error": f"session {session} is closed already"})
    assert dump(conn) == before


def test_a_replay_asks_the_same_messages_again(serving, conn, session):
    reply = post(serving, {}, f"/api/sessions/{session}/replay")

    fresh = reply.json()["sessionId"]
    assert reply.json() == {"ok": True, "sessionId": fresh, "replays": session, "messages": 4}
    assert get(serving, f"/api/sessions/{fresh}").json()["replays"] == session
    first, again = (get(serving, f"/api/sessions/{each}/messages").json() for each in (session, fresh))
    assert [each["message"] for each in again] == [each["message"] for each in first]
    assert [each["replayOf"] for each in again] == [each["messageId"] for each in first]
    assert texts(take(conn, now_ms=NOW + 10**12)) == ["one", "two", "waits", "context"]


def test_a_replay_can_be_limited_to_the_newest_messages(serving, conn, session):
    reply = post(serving, {}, f"/api/sessions/{session}/replay?limit=2")

    assert reply.json()["messages"] == 2
    given = column(conn, "SELECT message FROM messages WHERE content ->> '$.replay_of' IS NOT NULL ORDER BY id")
    assert given == ["waits", "context"]
    assert post(serving, {}, f"/api/sessions/{session}/replay?limit=1001").status_code == 400


@pytest.mark.parametrize(
    ("method", "path"), [("GET", ""), ("GET", "/messages"), ("POST", "/reset"), ("POST", "/replay")]
)
def test_a_missing_session_is_a_404_that_names_the_list(serving, conn, method, path):
    before = dump(conn)

    reply = ask(serving, method, f"/api/sessions/session_nowhere0{path}")

    assert reply.status_code == 404
    assert reply.json() == {"error": "no session 'session_nowhere0'; GET /api/sessions lists them"}
    assert dump(conn) == before
