"""Where ``durability`` says ``replicated``, nothing is sent whose claim is not in the replica."""

import asyncio
import contextlib
import math

import pytest

from shared.db.replica import sync_permit
from tests.functions.deliver.sending import LONG, Platform, service_of, worked
from tests.support import answer, column, row


class Replica:
    """Litestream's control socket: at each question notes the rows, and says whether they are in the replica."""

    def __init__(self, conn, platform):
        self.conn = conn
        self.platform = platform
        self.has_all = True
        self.lacks_after = None  # when so many parts were sent, it lacks what is known of the last one
        self.seen = []  # at each question: the status of the response, and what had been sent

    async def serve(self, reader, writer):
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while True:  # Litestream keeps the connection
                    await self.answer_one(reader, writer)
        finally:  # also where the loop ends first
            writer.close()

    async def answer_one(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(next(int(line[15:]) for line in head.split(b"\r\n") if line[:14] == b"Content-Length"))
        self.seen.append((column(self.conn, "SELECT status FROM responses")[0], len(self.platform.requests)))
        has_all = self.has_all and len(self.platform.requests) != self.lacks_after
        body = b'{"txid": 5, "replicated_txid": %d}' % (5 if has_all else 4)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()


@pytest.fixture
def socket(tmp_path, monkeypatch):
    path = tmp_path / "l.sock"
    monkeypatch.setenv("POSTROOM_DURABILITY", "local,telegram=replicated")
    monkeypatch.setenv("POSTROOM_LITESTREAM_SOCKET", str(path))
    sync_permit.grant(path, math.inf)
    return path


def deliver_once(socket, replica, platform, act=lambda: None):
    async def go():
        async with await asyncio.start_unix_server(replica.serve, socket):
            service = service_of(platform)
            act()
            await worked(service)
            await service.close()

    asyncio.run(go())


def test_a_send_begins_when_its_claim_is_in_the_replica(conn, socket):
    answer(conn, "hello", chat="5000000001")
    platform = Platform()
    replica = Replica(conn, platform)

    deliver_once(socket, replica, platform)

    assert replica.seen == [("delivering", 0)], "the claim is committed, and nothing was sent"
    assert platform.texts == ["hello"]
    assert row(conn, "responses")["status"] == "acked"


@pytest.mark.parametrize("why", ["the replica lacks it", "the lease has run out"])
def test_what_is_not_in_the_replica_is_not_sent_and_costs_no_attempt(conn, socket, why):
    answer(conn, "hello", chat="5000000001")
    platform = Platform()
    replica = Replica(conn, platform)
    replica.has_all = why != "the replica lacks it"

    def act():
        if why == "the lease has run out":  # this host was frozen, and another one may send the same
            sync_permit.grant(socket, 0.0)

    deliver_once(socket, replica, platform, act)

    assert platform.requests == []
    found = row(conn, "responses")
    assert (found["status"], found["retry_count"], found["claimed_by"]) == ("pending", 0, None)


def test_a_local_channel_asks_nobody(conn, socket, monkeypatch):
    monkeypatch.setenv("POSTROOM_DURABILITY", "replicated,telegram=local")
    answer(conn, "hello", chat="5000000001")
    platform = Platform()
    replica = Replica(conn, platform)

    deliver_once(socket, replica, platform)

    assert (replica.seen, platform.texts) == ([], ["hello"])


def test_the_next_part_waits_until_the_replica_knows_of_the_one_before(conn, socket):
    """A machine that takes over sends none of them again; one that was frozen between two sends no more."""
    answer(conn, LONG, chat="5000000001")
    platform = Platform()
    replica = Replica(conn, platform)
    replica.lacks_after = 1

    deliver_once(socket, replica, platform)

    assert len(platform.texts) == 1
    found = row(conn, "responses")
    assert (found["status"], found["parts"], found["retry_count"]) == ("pending", '["9001"]', 0)

    replica.lacks_after = None
    deliver_once(socket, replica, platform)

    assert len(set(platform.texts)) == len(platform.texts) == 2
    assert row(conn, "responses")["status"] == "acked"


def test_while_the_replica_does_not_answer_the_channels_that_do_not_wait_for_it_go_on(conn, socket, monkeypatch):
    monkeypatch.setenv("POSTROOM_MAX_CONCURRENT_SENDS", "1")
    monkeypatch.setenv("POSTROOM_DURABILITY", "local,discord=replicated")
    answer(conn, "must be in the replica", chat="800000000000000001", channel="discord")
    answer(conn, "need not be", chat="5000000001")
    platform = Platform()
    replica = Replica(conn, platform)
    replica.has_all = False

    async def go():
        async with await asyncio.start_unix_server(replica.serve, socket):
            service = service_of(platform)
            await worked(service)
            await worked(service)
            await service.close()

    asyncio.run(go())

    assert platform.texts == ["need not be"]


def test_while_the_replica_does_not_answer_one_response_tries_it(conn, socket):
    for chat in range(5):
        answer(conn, "hello", chat=str(5000000001 + chat))
    platform = Platform()
    replica = Replica(conn, platform)
    replica.has_all = False

    async def go():
        async with await asyncio.start_unix_server(replica.serve, socket):
            service = service_of(platform)
            await worked(service)
            replica.seen.clear()
            assert 0 < await service.claim_and_start() <= 1
            service._replica_again_at -= 1000  # a second later
            await worked(service)
            assert len(replica.seen) == 2, "a question and its repetition, of one response"
            assert column(conn, "SELECT claimed_by FROM responses WHERE claimed_by IS NOT NULL") == []
            replica.has_all = True
            service._replica_again_at -= 1000
            await worked(service)
            await worked(service)
            await service.close()

    asyncio.run(go())

    assert platform.texts == ["hello"] * 5
