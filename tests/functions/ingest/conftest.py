import asyncio
import contextlib
import math

import pytest

from functions import ingest
from shared.db.replica import sync_permit
from tests.support import column


@pytest.fixture(autouse=True)
def today(day_of_the_events):
    """What the tests send is not too old to be taken."""


class Litestream:
    """Answers yes or no; with ``held``, only when told to. It sees what is committed at that instant."""

    def __init__(self, conn):
        self.conn = conn
        self.can = True
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.found = []

    async def serve(self, reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        self.found.append(column(self.conn, "SELECT count(*) FROM messages")[0])
        await self.may_answer.wait()
        body = b'{"txid": 5, "replicated_txid": 5}' if self.can else b'{"txid": 5, "replicated_txid": 4}'
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()


@pytest.fixture
def replicated(serving, environment, monkeypatch, conn):
    """An ingest that waits for the replica, and its Litestream."""
    monkeypatch.setenv("POSTROOM_DURABILITY", "replicated")
    monkeypatch.setenv("POSTROOM_REPLICATION_TIMEOUT_MS", "60000")
    monkeypatch.setenv("POSTROOM_LITESTREAM_SOCKET", str(environment / "l.sock"))
    sync_permit.grant(environment / "l.sock", math.inf)

    @contextlib.asynccontextmanager
    async def run():
        litestream = Litestream(conn)
        async with await asyncio.start_unix_server(litestream.serve, environment / "l.sock"), serving(ingest) as client:
            yield client, litestream

    return run
