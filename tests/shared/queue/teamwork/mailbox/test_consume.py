"""Conversations, and what is consumed, urgent, or pruned."""

import apsw
import pytest

from shared.core.errors import NotFound
from shared.db.engine.connection import rows, transaction
from shared.db.queue import conversations, messages
from shared.db.roster import teams
from shared.db.roster.teams import Team
from shared.queue import turns
from shared.queue.teamwork import mailbox, rooms
from shared.queue.turns import Failure
from tests.forks import outcomes
from tests.shared.queue.teamwork.mailbox.kit import POLICY, ask, begin, consume, end, say, send
from tests.support import NOW, column, dump, plan, put, row


def test_every_message_between_agents_has_a_conversation(conn):
    first = row(conn, "messages", send(conn, "alice", "bob"))["conversation_id"]
    assert first.startswith("conversation_")
    assert row(conn, "conversations", first)["status"] == "open"
    other = row(conn, "messages", send(conn, "alice", "bob"))["conversation_id"]
    assert other != first
    again = send(conn, "alice", "carol", conversation_id=first, now_ms=NOW + 7)
    assert row(conn, "messages", again)["conversation_id"] == first
    assert row(conn, "conversations", first)["last_active"] == NOW + 7
    because = send(conn, "carol", "bob", because=again)
    assert row(conn, "messages", because)["conversation_id"] == first


def test_a_message_to_a_closed_conversation_begins_a_new_one(conn):
    asked = send(conn, "alice", "bob")
    closed = row(conn, "messages", asked)["conversation_id"]
    with transaction(conn):
        conversations.close_idle(conn, idle_since_ms=NOW + 1, limit=9, now_ms=NOW + 1)
    say(conn, "bob", "late", now_ms=NOW + 2)
    fresh = row(conn, "messages")["conversation_id"]
    assert fresh != closed
    assert row(conn, "conversations", closed)["status"] == "closed"
    assert row(conn, "conversations", fresh)["status"] == "open"


def test_consume_takes_all_pending_messages_in_order_and_no_turn_runs_them(conn):
    send(conn, "alice", "bob", "one")
    put(conn, "from a person", agent="bob")
    send(conn, "operator", "bob", "two", urgency="urgent")
    send(conn, "alice", "carol", "for somebody else")
    taken = consume(conn, "bob", now_ms=NOW + 5)
    assert [(letter.message.message, letter.status, letter.updated_at) for letter in taken] == [
        *(("one", "completed", NOW + 5), ("two", "completed", NOW + 5))
    ]
    assert consume(conn, "bob") == []
    assert [message.message for message in say(conn, "bob", "hello")] == ["from a person"]
    assert begin(conn, "bob") is None
    assert rows(conn, "SELECT role, content FROM agent_messages ORDER BY id")[:2] == [("user", "one"), ("user", "two")]
    assert column(conn, "SELECT count(*) FROM events WHERE type = 'message_consumed'") == [2]


def test_an_expected_answer_can_be_consumed(conn):
    put(conn, "ask bob", agent="alice")
    ask(conn, "alice", "bob", "well?")
    say(conn, "bob", "well")
    assert [letter.message.message for letter in consume(conn, "alice")] == ["well"]
    assert begin(conn, "alice") is None


def test_posts_of_a_room_can_be_consumed(conn):
    team = Team("dev", "Dev", "alice", ("alice", "bob"))
    with transaction(conn):
        teams.save(conn, team, now_ms=NOW)
        rooms.post(conn, team, "hello", now_ms=NOW)
    assert [letter.message.message for letter in consume(conn, "bob")] == ["[Chat room #dev — @user]:\nhello"]


def test_claimed_and_planned_messages_are_not_consumed(conn):
    send(conn, "alice", "bob", "held")
    claim = begin(conn, "bob")
    later = send(conn, "alice", "bob", "later")
    rows(conn, "UPDATE messages SET process_after = :due WHERE id = :id", {"due": NOW + 1000, "id": later})
    assert consume(conn, "bob") == []
    end(conn, claim, "well")
    assert [letter.message.message for letter in consume(conn, "bob", now_ms=NOW + 1000)] == ["later"]


def test_a_message_that_waits_for_a_retry_can_be_consumed(conn):
    send(conn, "alice", "bob", "hard")
    claim = begin(conn, "bob")
    with transaction(conn):
        turns.fail(conn, claim, Failure("broken"), POLICY, now_ms=NOW)
    assert [letter.message.message for letter in consume(conn, "bob")] == ["hard"]
    assert row(conn, "messages", claim.batch[0].id)["last_error"] is None


def test_only_agents_have_a_mailbox(conn):
    with pytest.raises(NotFound, match="no agent 'ghost'"):
        consume(conn, "ghost")


def _consume_all(connection):
    taken, empty = [], 0
    while empty < 3:
        with transaction(connection):
            letters = mailbox.mailbox.consume(connection, "bob", now_ms=NOW, limit=3)
        taken += [letter.message.id for letter in letters]
        empty = 0 if letters else empty + 1
    return taken


def test_two_simultaneous_consumers_never_get_the_same_message(conn, db):
    sent = [send(conn, "alice", "bob", str(number)) for number in range(120)]
    got = outcomes(db, _consume_all, [()] * 3)
    assert sorted(id_ for each in got for id_ in each) == sent


def test_urgent_and_undelivered(conn):
    send(conn, "alice", "bob")
    first = send(conn, "alice", "bob", urgency="urgent")
    second = send(conn, "alice", "carol", urgency="urgent")
    assert mailbox.poll_urgent(conn) == [(first, "bob"), (second, "carol")]
    consume(conn, "carol")
    begin(conn, "bob")
    assert mailbox.poll_urgent(conn) == []


def test_the_newest_thousand_delivered_messages_stay_and_the_others_are_pruned(conn):
    old = []
    for number in range(3):
        old.append(send(conn, "alice", "bob", str(number)))
        consume(conn, "bob", now_ms=NOW + number)
    rows(
        conn,
        """
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 998)
        INSERT INTO messages (message_id, id_prefix, channel, sender, message, agent, from_agent, session_id, status,
                              created_at, updated_at)
        SELECT 'copy_' || i, 'internal', 'internal', 'alice', 'm', 'bob', 'alice', 1, 'completed', :now, :now + i FROM n
        """,
        {"now": NOW + 10},
    )
    waiting = send(conn, "alice", "bob", "unread")
    put(conn)  # the newest row stays whatever it is
    after = 0
    while True:
        with transaction(conn):
            _, after = messages.prune(conn, after_id=after, older_than_ms=NOW + 86_400_000, limit=500)
        if after == 0:
            break
    left = column(conn, "SELECT id FROM messages WHERE from_agent IS NOT NULL ORDER BY id")
    assert len(left) == 1000 + 1
    assert waiting in left
    assert [id_ in left for id_ in old] == [False, True, True]


QUERIES = {
    "consume": (mailbox.mailbox.CONSUME, {"agent": "bob", "now": NOW, "limit": 9}, "messages_open (agent=?)"),
    "poll_urgent": (mailbox.mailbox.POLL_URGENT, {"limit": 9}, "messages_urgent"),
    "thread": (mailbox.mailbox.THREAD, {"root": 1, "limit": 9}, "messages_thread (thread_root=?)"),
}


@pytest.mark.parametrize(("sql", "parameters", "index"), QUERIES.values(), ids=QUERIES)
def test_every_query_has_its_index(conn, sql, parameters, index):
    lines = plan(conn, sql, **parameters)
    assert any(index in line for line in lines), lines
    assert not any("SCAN messages" in line and index not in line for line in lines), lines


@pytest.mark.parametrize("table", ["messages", "conversations"])
def test_an_answer_that_can_not_be_stored_leaves_the_turn_unsettled(conn, table):
    send(conn, "alice", "bob")
    claim = begin(conn, "bob")
    verb = "INSERT ON" if table == "messages" else "UPDATE ON"
    rows(conn, f"CREATE TEMP TRIGGER broken BEFORE {verb} main.{table} BEGIN SELECT raise(ABORT, 'broken'); END")
    before = dump(conn)
    with pytest.raises(apsw.ConstraintError, match="broken"):
        end(conn, claim, "well")
    assert dump(conn) == before
