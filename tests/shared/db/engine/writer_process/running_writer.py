"""A remote writer with its process, and the work that tests give it."""

import asyncio
import os

from shared.db.engine.connection import rows
from shared.db.engine.group_commit import Writer
from shared.db.engine.writer_process import RemoteWriter
from tests.support import column


class Setup:
    """A remote writer, its process, and the writer that takes over from it."""

    def __init__(self, process, db, work, **options):
        self.pid = process._child.pid
        self.writer = Writer(db)
        self.remote = RemoteWriter(process, db, work, writer=self.writer, **options)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.remote.close()
        self.writer.close()


def note(conn, key):
    rows(conn, "CREATE TABLE IF NOT EXISTS noted (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE)")
    rows(conn, "INSERT OR IGNORE INTO noted (key) VALUES (?)", (key,))
    return key, os.getpid()


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 240))


def submitted(remote, *calls):
    """The results or errors of *calls*, asked for in one turn of the event loop."""
    return asyncio.gather(*(remote.submit(*call) for call in calls), return_exceptions=True)


def keys(conn):
    """In the order in which they were stored."""
    return column(conn, "SELECT key FROM noted WHERE key <> 'first' ORDER BY id")
