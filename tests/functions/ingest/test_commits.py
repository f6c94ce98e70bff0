"""One commit for many webhooks."""

import asyncio
import fcntl
from pathlib import Path

from functions import ingest
from shared.db.engine.connection import rows
from tests.functions.ingest.kit import numbered, telegram
from tests.support import column
from tests.wal import commits


def test_concurrent_webhooks_share_a_commit_and_a_single_one_commits_at_once(serving, conn, until):
    """Counts the commit frames of the write-ahead log, each of which holds the size of the file.

    The first of the concurrent ones finds the database locked; the others come while it waits.
    """

    async def go():
        async with serving(ingest) as client:
            await client.post("/webhooks/telegram", **telegram())
            before = commits(conn)
            await client.post("/webhooks/telegram", **telegram(numbered(0)))
            alone = commits(conn) - before
            rows(conn, "BEGIN IMMEDIATE")
            calls = [telegram(numbered(number)) for number in range(1, 65)]
            posts = [asyncio.create_task(client.post("/webhooks/telegram", **calls[0]))]
            await until(lambda: is_somebody_writing(conn))
            posts += [asyncio.create_task(client.post("/webhooks/telegram", **call)) for call in calls[1:]]
            writer = ingest._service.get().writer
            await until(lambda: len(writer._waiting) == 63)
            rows(conn, "ROLLBACK")
            await asyncio.gather(*posts)
            return alone, commits(conn) - before - alone

    assert asyncio.run(go()) == (1, 2)
    assert column(conn, "SELECT count(*) FROM messages") == [66]


class Timeless(asyncio.SelectorEventLoop):
    """Its time stands still: a timer never fires."""

    def time(self):
        return 0.0


def test_a_single_webhook_waits_for_no_timer(serving, conn):
    async def go():
        async with serving(ingest) as client:
            return [(await client.post("/webhooks/telegram", **telegram(numbered(n)))).status_code for n in range(3)]

    with asyncio.Runner(loop_factory=Timeless) as runner:
        assert runner.run(go()) == [200] * 3


def is_somebody_writing(conn):
    with Path(f"{conn.filename}-gate").open("wb") as gate:
        try:
            fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
