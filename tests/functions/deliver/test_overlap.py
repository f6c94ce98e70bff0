"""A send that lost its lease (the machine slept, its clock jumped) runs on until it ends or gives up."""

import asyncio

import pytest

from functions.deliver import Deliver
from shared.core.settings import Settings
from shared.core.time import clock
from shared.db.engine.connection import rows, transaction
from shared.queue import deliveries
from shared.queue.delivery_verdicts import DeliveryPolicy
from tests.fake_client import FakeClient
from tests.functions.deliver.sending import Platform, hang, sent
from tests.support import answer, column


@pytest.mark.parametrize("unknown_sends", ["resend", "hold"])
def test_a_chat_with_a_running_send_gets_no_second_one(conn, until, unknown_sends):
    answer(conn, "first", chat="1")
    answer(conn, "second", chat="1")
    answer(conn, "other", chat="2")
    platform = Platform(hang, sent)
    policy = DeliveryPolicy(max_attempts=5, base_ms=1, cap_ms=1, unknown_sends=unknown_sends, jitter=0.0)

    async def go():
        service = Deliver(Settings.load(), FakeClient(platform))
        await service.claim_and_start()
        await until(lambda: column(conn, "SELECT status FROM responses WHERE message = 'other'") == ["acked"])
        await until(lambda: "first" in platform.texts)
        with transaction(conn):
            assert deliveries.rescue(conn, "telegram", policy, now_ms=clock.now_ms() - 1000, everything=True)
        await service.claim_and_start()
        await asyncio.sleep(0.05)
        meanwhile = platform.texts
        await service.close()
        return meanwhile

    assert sorted(asyncio.run(go())) == ["first", "other"]
    assert column(conn, "SELECT count(*) FROM events WHERE type = 'response_outcome_unknown'") == [1]


def test_a_stop_while_the_claim_waits_for_the_database_claims_nothing(conn, until):
    """Otherwise its outcome would count as unknown, and it would be sent twice or given up."""
    answer(conn)
    platform = Platform(sent)

    async def go():
        service = Deliver(Settings.load(), FakeClient(platform))
        service.worker.begin()
        await until(lambda: column(conn, "SELECT status FROM responses") == ["acked"] and not service.worker.running)
        answer(conn, "more")
        with transaction(conn):
            service.worker.wake()
            await asyncio.sleep(0.05)
            await service.worker.stop()
        await service.client.close()
        service.writer.close()  # finishes its queued work
        service.reader.close()
        service.kicker.close()

    asyncio.run(go())
    assert rows(conn, "SELECT status, part_started FROM responses") == [("acked", None), ("pending", None)]
    assert platform.texts == ["hi"]


@pytest.mark.long
def test_a_send_during_a_long_full_disk_is_not_repeated(conn, until):
    answer(conn, "first")
    answer(conn, "second")
    platform = Platform(sent)

    async def go():
        service = Deliver(Settings.load(), FakeClient(platform))
        rows(
            conn,
            "CREATE TRIGGER full BEFORE UPDATE ON responses WHEN NEW.status = 'acked'"
            " BEGIN SELECT raise(ABORT, 'full'); END",
        )
        service.worker.begin()
        await until(lambda: platform.texts == ["first"])
        await asyncio.sleep(8)  # longer than the earlier limit of its attempts
        rows(conn, "DROP TRIGGER full")
        await until(lambda: column(conn, "SELECT status FROM responses") == ["acked", "acked"])
        await service.close()

    asyncio.run(go())
    assert platform.texts == ["first", "second"]
