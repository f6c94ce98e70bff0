"""The next occurrence of each series."""

import asyncio

import pytest

from functions import recurrence
from functions.recurrence import Recurrence
from shared.db.engine.connection import rows, transaction
from tests.functions.sweep.kit import DAY, NINE, missed, run
from tests.support import NOW, TICK, answer, column, dump, row


def advance_at(now_ms):
    advanced = run(Recurrence, now_ms)
    assert advanced.failed == []
    return advanced.counts


def test_recurrence_finds_what_a_settlement_missed_once(conn):
    missed(conn)
    assert advance_at(NINE + 5) == {"messages": 1, "responses": 0}
    assert row(conn, "messages")["process_after"] == NINE + DAY
    before = dump(conn)
    assert advance_at(NINE + 5) == {"messages": 0, "responses": 0}
    assert dump(conn) == before


def test_recurrence_catches_up_in_transactions_of_bounded_size(conn, written):
    for number in range(53):
        missed(conn, series_id=f"s{number}")
    assert advance_at(NINE + 5) == {"messages": 53, "responses": 0}
    assert column(conn, "SELECT count(*) FROM messages WHERE recurrence IS NOT NULL AND status = 'pending'") == [53]
    assert max(written) == 2 * 20  # for each series, the ended row and its successor


def test_a_failing_table_does_not_stop_the_other(serving, conn):
    missed(conn)
    recurring_response(conn)
    with transaction(conn):
        rows(conn, "CREATE TRIGGER broken BEFORE INSERT ON messages BEGIN INSERT INTO gone VALUES (1); END")

    async def go():
        async with serving(recurrence) as client:
            return await client.post("/tick", headers=TICK)

    told = asyncio.run(go())
    assert (told.status_code, told.json()) == (500, {"responses": 1, "failed": ["messages"]})


@pytest.mark.parametrize(
    ("misfire", "due"), [("coalesce", NINE + 4 * DAY), ("catch_up", NINE + DAY), ("skip", NINE + 4 * DAY)]
)
def test_after_a_long_downtime_misfire_decides(conn, misfire, due):
    missed(conn, misfire=misfire)
    advance_at(NINE + 3 * DAY + 5)
    assert row(conn, "messages")["process_after"] == due


def recurring_response(conn):
    answer(conn)
    with transaction(conn):
        rows(
            conn,
            "UPDATE responses SET recurrence = '0 9 * * *', timezone = 'UTC', series_id = 's', scheduled_at = :now,"
            " status = 'dead'",
            {"now": NOW},
        )


def test_recurring_responses_get_their_next_occurrence_too(conn):
    recurring_response(conn)
    assert advance_at(NOW) == {"messages": 0, "responses": 1}
    assert row(conn, "responses")["deliver_after"] == NINE
