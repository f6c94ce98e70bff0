"""A claim costs the same, whatever waits."""

import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, messages, ready_sessions, spoken
from tests.shared.db.queue.claiming import complete
from tests.support import LEASE, NOW, column, enqueue_all, make_session, plan, put, take


def test_a_great_deal_of_old_context_is_passed_over_step_by_step(conn):
    """Forty thousand at once would hold the write lock for most of a second."""
    _, session = make_session(conn)
    new = messages.NewMessage(sender="A", agent="assistant", session_id=session, trigger=False)
    with transaction(conn):
        enqueue_all(conn, [new] * 1107, now_ms=NOW)
    put(conn)
    put(conn, "younger", trigger=False)
    claim = take(conn, limit=8)
    put(conn, "youngest", trigger=False)
    complete(conn, claim)
    waits = "SELECT count(*) FROM messages WHERE status = 'pending'"
    left = column(conn, waits)
    while claims.has_older_context(conn, claim):
        with transaction(conn):
            claims.pass_over(conn, claim, now_ms=NOW)
        left += column(conn, waits)
    assert left == [602, 102, 1]


# -- plans and growth

PLANS = {
    "OPEN_AGENTS": (ready_sessions.OPEN_AGENTS, {}),
    "FIRSTS": (ready_sessions.FIRSTS, {"agent": "assistant", "now": NOW}),
    "URGENT_SESSIONS": (ready_sessions.URGENT_SESSIONS, {"now": NOW}),
    "INTERRUPTED_SESSIONS": (ready_sessions.INTERRUPTED_SESSIONS, {}),
    "WAITING": (claims.WAITING, {"agent": "assistant", "session": 1, "now": NOW, "limit": 10}),
    "MARK": (spoken.MARK, {"agent": "assistant", "session": 1, "token": "t", "story": "t"}),
    "RUNNING": (claims.RUNNING, {"agent": "assistant", "session": 1}),
    "DUE": (claims.DUE, {"agent": "assistant", "session": 1, "now": NOW, "limit": 10}),
    "URGENT": (claims.URGENT, {"session": 1, "now": NOW, "limit": 10}),
    "CONTEXT": (claims.CONTEXT, {"session": 1, "limit": 10}),
    "ABOUT_BATCH": (claims.ABOUT_BATCH, {"session": 1, "after": 5, "batch": '["m"]'}),
    "OLDEST_CONTEXT": (claims.OLDEST_CONTEXT, {"session": 1}),
    "NEXT_DUE": (ready_sessions.NEXT_DUE, {"now": NOW}),
    "NEXT_GATHERED": (ready_sessions.NEXT_GATHERED, {"now": NOW}),
    "GO_ON": (
        messages.GO_ON,
        {"agent": "assistant", "session": 1, "row": 1, "channel": "telegram", "sender": "5", "until": NOW},
    ),
    "END": (messages.END, {"agent": "assistant", "session": 1}),
    "claim": (
        "UPDATE messages SET status = 'processing', claimed_by = :token, lease = 1 "
        "WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'pending' RETURNING id",
        {"token": "x", "ids": "[1]"},
    ),
    "old context": (
        "UPDATE messages SET status = 'completed' "
        "WHERE session_id = 1 AND status = 'pending' AND trigger = 0 AND id < :newest",
        {"newest": 9},
    ),
    "finished occurrences": (
        "SELECT id FROM messages WHERE recurrence IS NOT NULL"
        " AND (status = 'completed' OR status = 'dead' OR status = 'cancelled') ORDER BY id LIMIT 5",
        {},
    ),
}


@pytest.mark.parametrize(("sql", "parameters"), PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("analysed", [False, True], ids=["without statistics", "with statistics"])
def test_no_hot_query_reads_the_whole_table(conn, sql, parameters, analysed):
    """``PRAGMA optimize`` gathers statistics, and may change a plan with them."""
    if analysed:
        fill(conn, 300)
        rows(conn, "ANALYZE")
    lines = plan(conn, sql, **parameters)
    assert lines
    bare = [line for line in lines if line.startswith("SCAN m") and "USING" not in line]
    assert bare == []
    assert not [line for line in lines if "TEMP B-TREE FOR ORDER BY" in line and sql is not claims.RUNNING]


def fill(conn, count, *, sessions=10):
    """*count* waiting messages of one agent, without their events."""
    ids = [make_session(conn, chat=str(number))[1] for number in range(sessions)]
    with transaction(conn):
        conn.executemany(
            "INSERT INTO messages (message_id, id_prefix, channel, sender, message, agent, session_id, created_at,"
            " updated_at) VALUES (?, 'telegram', 'telegram', 'A', 't', 'assistant', ?, 1, 1)",
            ((f"m{number}", ids[number % sessions]) for number in range(count)),
        )


def steps(conn, work):
    """How many instructions of SQLite's virtual machine *work* takes, in hundreds."""
    counted = 0

    def count():
        nonlocal counted
        counted += 1
        return False

    conn.set_progress_handler(count, 100)
    work()
    conn.set_progress_handler(None)
    return counted


def test_a_turn_costs_the_same_whatever_waits_behind_it(conn):
    """40 000 waiting messages of one agent in ten sessions against 400."""

    def turn():
        (first,) = ready_sessions.find(conn, now_ms=NOW)
        with transaction(conn):
            claim = claims.claim(conn, "assistant", first.session_id, token="t", now_ms=NOW, lease_ms=LEASE, limit=10)
        assert len(claim.batch) == 10
        with transaction(conn):
            claims.complete(conn, claim, now_ms=NOW)

    fill(conn, 400)
    few = steps(conn, turn)
    with transaction(conn):
        rows(conn, "DELETE FROM messages")
    fill(conn, 40_000)
    many = steps(conn, turn)
    assert few > 0
    assert many <= few * 1.5 + 2
