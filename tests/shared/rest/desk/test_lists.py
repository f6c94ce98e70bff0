"""The lists of the operator's page, over HTTP: their parameters and their refusals."""

from datetime import UTC, datetime

from shared.db.engine import past
from shared.db.engine.connection import transaction
from shared.db.engine.past import Past
from shared.queue import turns
from shared.queue.turns import TurnReply
from tests.api_client import get
from tests.support import NOW, answer, make_agent, make_chat, put, take


def ids(serving, path):
    return [each["text"] for each in get(serving, path).json()]


def test_messages_are_listed_by_state_and_filtered(serving, conn):
    make_agent(conn, "coder")
    put(conn, "first")
    put(conn, "second", agent="coder", chat="200", now_ms=NOW + 10)
    assert ids(serving, "/api/lists/waiting") == ["second", "first"]
    assert ids(serving, "/api/lists/waiting?agent=coder") == ["second"]
    assert ids(serving, f"/api/lists/waiting?chatId={make_chat(conn)}") == ["first"]
    assert ids(serving, f"/api/lists/waiting?since={NOW + 10}&channel=telegram") == ["second"]
    assert ids(serving, "/api/lists/waiting?reason=due&limit=1") == ["second"]
    assert (
        ids(serving, "/api/lists/done") == ids(serving, "/api/lists/running") == ids(serving, "/api/lists/dead") == []
    )


def test_answers_are_listed_by_state(serving, conn):
    answer(conn, "one")
    dead = answer(conn, "two", chat="200")
    with transaction(conn):
        conn.execute("UPDATE responses SET status = 'dead', failure = 'error' WHERE id = :id", {"id": dead})
    assert ids(serving, "/api/lists/sending") == ["one"]
    assert ids(serving, "/api/lists/unsent") == ["two"]


def test_a_conversation_is_read_by_its_chat(serving, conn):
    put(conn, "hello")
    (line,) = get(serving, f"/api/chats/{make_chat(conn)}/log").json()
    assert (line["what"], line["message"]["text"]) == ("message", "hello")


def test_a_chat_that_is_not_there_and_a_state_that_is_none_are_told(serving):
    for path in ("/api/chats/99/log", "/api/lists/waiting?chatId=99"):
        reply = get(serving, path)
        assert (reply.status_code, reply.json()) == (404, {"error": "there is no chat 99; GET /api/chats lists them"})
    assert get(serving, "/api/lists/nothing").status_code == 404


def test_an_unknown_parameter_is_refused_with_the_known_names(serving):
    reply = get(serving, "/api/lists/dead?agents=coder")
    assert reply.status_code == 400
    assert "agent" in reply.json()["error"]


def test_a_copy_of_the_past_tells_of_its_own_instant(serving, conn):
    at = NOW - NOW % 1000 + 999
    put(conn, "soon", process_after=at + 60_000)
    with transaction(conn):
        timestamp = datetime.fromtimestamp(NOW // 1000, UTC).isoformat()
        past.mark(conn, Past("s3://b/p", "", "000000000000000b", timestamp))
    (row,) = get(serving, "/api/lists/waiting").json()
    assert (row["state"], row["until"]) == ("planned", at + 60_000)
    assert get(serving, "/api/calendar").json()["at"] == get(serving, "/api/overview").json()["at"] == at


def test_the_words_of_a_conversation_are_found_in_what_was_said_and_in_what_was_answered(serving, conn):
    put(conn, "what about 100%?")
    put(conn, "what about 1000?")
    path = f"/api/chats/{make_chat(conn)}/log?q="

    def found(words):
        return [line["message"]["text"] for line in get(serving, path + words).json()]

    assert found("ABOUT") == ["what about 1000?", "what about 100%?"]
    assert found("100%25") == ["what about 100%?"]
    assert found("nothing") == []
    (claimed, *_) = (claim := take(conn, limit=1)).asked
    with transaction(conn):
        turns.settle(conn, claim, [TurnReply("nearly nothing", claimed)], None, now_ms=NOW)
    assert found("nothing") == ["what about 100%?"]


def test_what_was_not_answered_and_the_latest_conversations_are_lists(serving, conn):
    put(conn, "by the way", trigger=False)
    (row,) = get(serving, "/api/lists/unanswered?what=ignored").json()
    assert (row["what"], row["state"]) == ("ignored", "context")
    assert get(serving, "/api/lists/unanswered?what=lost").status_code == 400
    assert get(serving, f"/api/lists/unanswered?cursor={row['cursor']}").json() == []
    log = f"/api/chats/{make_chat(conn)}/log"
    (line,) = get(serving, log).json()
    assert get(serving, f"{log}?cursor={line['cursor']}").json() == []
    for path in ("/api/lists/unanswered", log):
        assert get(serving, f"{path}?cursor=1").status_code == 400
    (place,) = get(serving, "/api/lists/chats").json()
    assert (place["lastText"], place["id"]) == ("by the way", make_chat(conn))
    assert get(serving, "/api/find?q=100").json()["chats"][0]["id"] == place["id"]
