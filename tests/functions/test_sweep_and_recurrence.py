import asyncio

import pytest

from functions import recurrence, sweep
from functions.recurrence import Recurrence
from functions.sweep import Sweep, Swept
from shared.db import dropped, meta, responses
from shared.db.connection import rows, transaction
from shared.kick import Listener
from shared.settings import Settings
from tests.support import LEASE, NOW, TICK, answer, column, dump, make_session, put, row, take

DAY = 86_400_000
NINE = NOW + 3_600_000


def run(make, now_ms):
    async def go():
        service = make(Settings.load())
        try:
            return await service.once(now_ms=now_ms)
        finally:
            service.close()

    return asyncio.run(go())


def test_a_sweep_rescues_what_lost_its_process(conn):
    put(conn)
    take(conn)
    sent = answer(conn)
    with transaction(conn):
        responses.claim(conn, sent, token="send_a", now_ms=NOW, lease_ms=LEASE)
    assert run(Sweep, NOW + LEASE) == Swept(0, 0, 0, 0, 0)
    swept = run(Sweep, NOW + LEASE + 1)
    assert (swept.rescued_turns, swept.rescued_sends) == (1, 1)
    assert column(conn, "SELECT status FROM messages UNION ALL SELECT status FROM responses") == ["pending", "pending"]
    assert run(Sweep, NOW + LEASE + 2) == Swept(0, 0, 0, 0, 0)


def test_a_sweep_prunes_what_is_over_a_day_old_in_batches(conn):
    _, session = make_session(conn)
    with transaction(conn):
        conn.executemany(
            "INSERT INTO messages (given_id, id_prefix, channel, sender, message, agent, session_id, status, created_at,"
            " updated_at) VALUES (?, 'x', 'x', 'A', 't', 'assistant', ?, 'completed', ?, ?)",
            ((f"m{number}", session, NOW, NOW) for number in range(1203)),
        )
        dropped.record(conn, channel="x", reason="empty", now_ms=NOW - 29 * DAY)
        dropped.record(conn, channel="x", reason="empty", now_ms=NOW)
    assert run(Sweep, NOW + DAY).pruned_messages == 0
    swept = run(Sweep, NOW + DAY + 1)
    assert (swept.pruned_messages, swept.pruned_refusals) == (1202, 1)
    assert column(conn, "SELECT count(*) FROM messages") == [1]


def test_a_sweep_leaves_its_heartbeat(conn):
    run(Sweep, NOW)
    assert meta.get(conn, "heartbeat_at") == str(NOW)


def test_the_rescued_are_taken_up_at_once(conn, environment):
    put(conn)
    take(conn)
    listener = Listener(environment, "dispatch")
    run(Sweep, NOW + LEASE + 1)
    listener._socket.setblocking(False)
    assert listener._socket.recv(16) == b"k"
    listener.close()


@pytest.mark.parametrize("module", [sweep, recurrence], ids=["sweep", "recurrence"])
def test_the_tick_needs_its_secret_and_may_come_twice(serving, conn, module):
    async def go():
        async with serving(module) as client:
            refused = await client.post("/tick")
            return refused, *await asyncio.gather(*(client.post("/tick", headers=TICK) for _ in range(2)))

    refused, *answers = asyncio.run(go())
    assert refused.status_code == 401
    assert {answer.status_code for answer in answers} <= {200, 202}
    assert 200 in {answer.status_code for answer in answers}


def missed(conn, **fields):
    """An occurrence that ended without handing over, as a release without series would leave it."""
    series = {"recurrence": "0 9 * * *", "timezone": "UTC", "series_id": "s1", "scheduled_at": NINE, **fields}
    put(conn, "task", process_after=NINE, **series)
    with transaction(conn):
        rows(conn, "UPDATE messages SET status = 'completed'")


def test_recurrence_finds_what_a_settlement_missed_once(conn):
    missed(conn)
    assert run(Recurrence, NINE + 5) == {"messages": 1, "responses": 0}
    assert row(conn, "messages")["process_after"] == NINE + DAY
    before = dump(conn)
    assert run(Recurrence, NINE + 5) == {"messages": 0, "responses": 0}
    assert dump(conn) == before


@pytest.mark.parametrize(("misfire", "due"), [("coalesce", NINE + 4 * DAY), ("catch_up", NINE + DAY)])
def test_after_a_long_downtime_misfire_decides(conn, misfire, due):
    missed(conn, misfire=misfire)
    run(Recurrence, NINE + 3 * DAY + 5)
    assert row(conn, "messages")["process_after"] == due


def test_recurring_responses_go_on_too(conn):
    answer(conn)
    with transaction(conn):
        rows(
            conn,
            "UPDATE responses SET recurrence = '0 9 * * *', timezone = 'UTC', series_id = 's', scheduled_at = :now,"
            " status = 'dead'",
            {"now": NOW},
        )
    assert run(Recurrence, NOW) == {"messages": 0, "responses": 1}
    assert row(conn, "responses")["deliver_after"] == NINE
