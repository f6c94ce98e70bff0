"""No verb costs more because of what is there: the same house nearly empty and full, with statistics and without.

Counted in instructions of SQLite's virtual machine, so that a plan that reads what it should not is seen at once.
"""

import itertools
import shutil

import pytest

from shared.db.alerts import alert_facts
from shared.db.engine import named_rows
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.queue import claims, messages, ready_sessions, responses
from shared.db.queue.claims import MessageVerdict
from shared.db.views import history
from shared.db.views import messages as message_views
from shared.db.views import responses as response_views
from tests.support import LEASE, NOW, answer, make_agent, make_chat, make_session, put, take

DEAD = MessageVerdict(dead=True, retry_count=5, process_after=None, reason="no use")
LATER = NOW + 10**9
SESSIONS = 10
ROWS = (2200, 22_000)


def fill(conn, count):
    """Rows in every state, as many of each: in sessions and chats of their own, and in those that the verbs use."""
    make_agent(conn, "crowded")
    crowd = [make_session(conn, "crowded", str(number))[1] for number in range(SESSIONS)]
    sessions = [("crowded", session) for session in crowd] + [("assistant", make_session(conn)[1])]
    chats = [make_chat(conn, str(number)) for number in (*range(SESSIONS), 100)]
    names = itertools.count()
    with transaction(conn):
        for status, after, trigger in (
            ("completed", None, 1),
            ("dead", None, 1),
            ("paused", None, 1),
            ("pending", None, 1),
            ("pending", None, 0),
            ("pending", LATER, 1),
        ):
            conn.executemany(
                """
                INSERT INTO messages (id_prefix, channel, sender, message, from_agent, created_at, updated_at,
                                      message_id, agent, session_id, status, process_after, trigger)
                VALUES ('telegram', 'telegram', 'A', 't', 'crowded', 1, 1, ?, ?, ?, ?, ?, ?)
                """,
                (
                    (f"telegram_{next(names)}", *sessions[number % len(sessions)], status, after, trigger)
                    for number in range(count)
                ),
            )
        for status, after, acked in (("acked", None, 1), ("dead", None, None), ("pending", None, None)):
            conn.executemany(
                """
                INSERT INTO responses (message_id, channel, sender, message, platform_id, created_at, chat_id, status,
                                       deliver_after, acked_at)
                VALUES ('telegram_1', 'telegram', 'A', 't', '100', 1, ?, ?, ?, ?)
                """,
                ((chats[number % len(chats)], status, after, acked) for number in range(count)),
            )
        conn.execute("UPDATE meta SET value = (SELECT max(id) FROM messages) WHERE key = 'announced'")


@pytest.fixture(scope="module", params=[False, True], ids=["without statistics", "with statistics"])
def houses(request, tmp_path_factory, fresh_database):
    made = []
    for count in ROWS:
        path = tmp_path_factory.mktemp("house") / "p.db"
        shutil.copy(fresh_database, path)
        conn = open_connection(path)
        fill(conn, count)
        if request.param:
            rows(conn, "ANALYZE")
        conn.close()
        made.append(path)
    return made


def cancelled(conn):
    claim = taken(conn)
    change(conn, "cancel", claim.batch[2].id, reason="unwanted")


def change(conn, verb, row_id, **more):
    with transaction(conn):
        getattr(messages, verb)(conn, row_id, now_ms=NOW, **more)


def announced(conn):
    put(conn)
    with transaction(conn):
        assert messages.announce(conn) == 1


def taken(conn):
    claim = take(conn, limit=5)
    assert len(claim.batch) == 5
    return claim


def failed(conn):
    claim = taken(conn)
    with transaction(conn):
        claims.fail(conn, claim, {message.id: DEAD for message in claim.batch}, now_ms=NOW)
    return claim.batch[2].id


def renewed(conn):
    claim = taken(conn)
    with transaction(conn):
        claims.renew(conn, claim, lease_until=LATER)


def completed(conn):
    """With fewer triggers than the batch holds, context goes with them, and what is older is done too."""
    _, session = make_session(conn, chat="fresh")
    put(conn, "context", chat="fresh", trigger=False)
    put(conn, chat="fresh")
    with transaction(conn):
        claim = claims.claim(conn, "assistant", session, token="t", now_ms=NOW, lease_ms=LEASE, limit=5)
        claims.complete(conn, claim, now_ms=NOW)
    assert len(claim.batch) == 2


def sent(conn):
    head = responses.heads(conn, "telegram", now_ms=NOW)[-1]
    with transaction(conn):
        response = responses.claim(conn, head, token="s", now_ms=NOW, lease_ms=LEASE)
        responses.record_part(conn, response, ("m1",), lease_until=LATER)
    assert len(responses.delivering(conn, "telegram")) == 1
    with transaction(conn):
        responses.ack(conn, response, ("m1", "m2"), now_ms=NOW)


VERBS = {
    "enqueue": put,
    "enqueue with an id": lambda conn: put(conn, given_id="order-7"),
    "enqueue an event": lambda conn: put(conn, event_key="e"),
    "find": lambda conn: messages.find(conn, messages.id_of(conn, 50)),
    "find nothing": lambda conn: messages.find(conn, "order-8"),
    "announce": announced,
    "is_unannounced": messages.is_unannounced,
    "ready": lambda conn: ready_sessions.find(conn, now_ms=NOW),
    "claim": taken,
    "renew": renewed,
    "complete": completed,
    "cancel what runs": cancelled,
    "fail and retry": lambda conn: change(conn, "retry", failed(conn)),
    "fail and delete": lambda conn: change(conn, "delete", failed(conn)),
    "is_held": lambda conn: claims.is_held(conn, taken(conn)),
    "next_due": lambda conn: ready_sessions.next_due(conn, now_ms=NOW),
    "running": lambda conn: (taken(conn), claims.running(conn)),
    "prune": lambda conn: messages.prune(conn, after_id=0, older_than_ms=NOW, limit=20),
    "answer": answer,
    "send": sent,
    "next due of responses": lambda conn: responses.next_due(conn, "telegram", now_ms=NOW),
    "a message's story": lambda conn: message_views.story(conn, 7),
    "newest responses": lambda conn: response_views.recent_responses(conn, limit=20),
    "newest history": lambda conn: history.history(conn, limit=20),
    "history of an agent": lambda conn: history.history(conn, agent="assistant", limit=20),
    "newest events": lambda conn: history.events(conn, before=named_rows.NEWEST, limit=20),
    "to be fetched": lambda conn: response_views.responses_to_fetch(
        conn, "api", has_adapter=False, now_ms=NOW, limit=20
    ),
    "stuck messages": lambda conn: alert_facts.messages(conn, longest_ms=1, now_ms=NOW),
    "stuck answers": lambda conn: alert_facts.answers(conn, ["telegram"], longest_ms=1, now_ms=NOW),
    "dead messages": alert_facts.dead_messages,
    "dead answers": alert_facts.dead_answers,
    "prune responses": lambda conn: responses.prune(conn, after_id=0, older_than_ms=NOW, limit=20),
}


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_a_verb_costs_the_same_in_a_full_house(houses, tmp_path, verb):
    counted = []
    for number, house in enumerate(houses):
        path = tmp_path / f"{number}.db"
        shutil.copy(house, path)
        conn = open_connection(path)
        steps = 0

        def count():
            nonlocal steps
            steps += 1
            return False

        conn.set_progress_handler(count, 10)
        verb(conn)
        conn.close()
        counted.append(steps)
    few, many = counted
    assert many <= few * 1.3 + 20
