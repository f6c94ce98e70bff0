"""A machine that starts as ``infra.replicate`` does, works, and stops, dies or loses its file."""

import asyncio
import subprocess
from pathlib import Path

from infra.litestream import local_state
from infra.litestream.lease import Lease
from infra.litestream.lease_owner import owner_of
from infra.litestream.prepare import Ready, prepare_replication
from infra.litestream.restored_files import read_facts
from shared.db.engine.connection import open_connection, transaction
from shared.db.queue import events
from shared.db.replica.litestream_program import program
from shared.db.replica.object_store import open_store
from shared.roster.new_database import prepare_database
from tests.emulator.storage.test_s3_server import ENVIRONMENT

NOW = 1_700_000_000_000


class Machine:
    """A folder with a database and its own lease owner."""

    def __init__(self, folder: Path, url: str, ttl_ms: int = 60_000) -> None:
        folder.mkdir(exist_ok=True)
        self.database, self.url, self.ttl_ms = folder / "postroom.db", url, ttl_ms
        self.lease = self.new_lease()

    def new_lease(self) -> Lease:
        owner = owner_of(self.database.with_name("owner"), self.database)
        return Lease(open_store(self.url, ENVIRONMENT), owner, self.ttl_ms)

    def start(self, **options: object) -> Ready:
        """Start as a process does, with a lease that was not taken yet."""
        self.lease = self.new_lease()
        return asyncio.run(prepare_replication(self.database, self.url, self.lease, ENVIRONMENT, limit_s=30, **options))

    def work(self, ready: Ready, count: int) -> None:
        """Make the database if there is none, add events, replicate them, and note the full copy."""
        prepare_database(self.database)
        conn = open_connection(self.database)
        with transaction(conn):
            for _ in range(count):
                events.append(conn, "message_queued", now_ms=NOW)
        conn.close()
        command = [program(), "replicate", "-once", str(self.database), ready.url]
        subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True)
        facts = read_facts(self.database)
        asyncio.run(self.lease.note_full_copy(self.lease.record.current, facts.epoch))
        asyncio.run(self.lease.renew(newest_event_id=facts.newest_event_id))

    def stop(self) -> None:
        """Stop in good order."""
        local_state.mark_good_end(self.database)
        self.crash()

    def crash(self) -> None:
        """Die in mid-work. The lease stays ours all the same, so it is given back here."""
        asyncio.run(self.lease.release())

    @property
    def facts(self) -> tuple[str | None, int]:
        found = read_facts(self.database)
        return found.epoch, found.newest_event_id

    def lose_file(self) -> None:
        for path in self.database.parent.glob("postroom.db*"):
            path.unlink()
