"""The drill: restore from the bucket alone what a dead writer had, and say what is lost.

The caller kills the writer and brings it back; :func:`restore_and_compare` does what lies between. It reads the dead
writer's file in one transaction, so a writer that comes back meanwhile changes nothing of what is compared.
"""

import asyncio
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import apsw

from infra.litestream.comparison import table_digests
from infra.litestream.comparison.row_differences import RowDifferences, compare
from infra.litestream.prepare import RESTORE_LIMIT_S
from infra.litestream.restored_files import ReplicaRefused, is_missing, restore
from shared.core.errors import PostroomError
from shared.db.engine.connection import open_connection, rows, scalar
from shared.db.engine.restore_proofs import ProofOutcome, RestoreProof
from shared.db.replica import lease_record
from shared.db.replica.lease_record import ReplicaPrefix, prefix_url
from shared.db.replica.object_store import open_store
from shared.db.replica.positions.urls import without_secrets

_SPARE = 64 * 1024 * 1024  # bytes that stay free
_EVENTS = "SELECT * FROM events WHERE id BETWEEN :oldest AND :newest ORDER BY id"


class DrillRefused(PostroomError):
    """The drill can't begin; nothing was killed. The message says why."""


@dataclass(frozen=True, slots=True)
class DrillResult:
    """What a drill found.

    Attributes:
        outcome: ``behind``: an earlier state of the same history, without the newest rows.
        replica: the URL of the restored prefix, without its query.
        differences: of the tables that differ.
        lost_ms: how much older the newest event of the restore is than that of the dead writer.
        lost_messages: the ids of the messages that are lost, the first twenty.
        restore_s, check_s, compare_s: how long each step took.
        damage: why it does not restore; None if it does.
    """

    outcome: ProofOutcome
    replica: str
    position: str
    tables: int
    rows: int
    bytes: int
    differences: tuple[RowDifferences, ...]
    lost_ms: int
    lost_messages: tuple[str, ...]
    restore_s: float
    check_s: float
    compare_s: float
    damage: str | None = None

    @property
    def lost_rows(self) -> int:
        """Rows of the dead writer that the restore lacks."""
        return sum(each.lost for each in self.differences)

    @property
    def reason(self) -> str | None:
        """The outcome for people; None if all is equal."""
        if self.damage is not None or self.outcome == "equal":
            return self.damage
        tables = ", ".join(each.table for each in self.differences)
        if self.outcome == "behind":
            return f"rows of the last {self.lost_ms} ms are missing, in {tables}"
        return f"these tables differ, and not by their newest rows alone: {tables}"

    def as_proof(self, now_ms: int, total_s: float) -> RestoreProof:
        """The row that records it."""
        return RestoreProof(
            made_at=now_ms,
            made_by="drill_kill",
            outcome=self.outcome,
            replica=self.replica,
            position=self.position,
            tables=self.tables,
            rows=self.rows,
            bytes=self.bytes,
            restore_ms=round(self.restore_s * 1000),
            total_ms=round(total_s * 1000),
            lost_rows=self.lost_rows,
            reason=self.reason,
        )


def check_room(database: Path, folder: Path) -> None:
    """Refuse a drill of a database that is not there, or for whose restore there is no room.

    Raises:
        DrillRefused
    """
    if is_missing(database):
        raise DrillRefused(f"there is no database {database}; a standby host has none")
    needed = database.stat().st_size + _SPARE
    missing = needed - shutil.disk_usage(folder).free
    if missing > 0:
        raise DrillRefused(
            f"{folder} has no room for a restored database: {-(-missing // 1_000_000)} MB are missing. Name another "
            f"folder with --folder"
        )


def present_prefix(url: str, environ: Mapping[str, str]) -> ReplicaPrefix:
    """The prefix that a restore takes now. Ask before the kill: the Litestream after it begins another.

    Raises:
        DrillRefused: nothing was replicated yet.
    """
    store = open_store(url, environ)
    found = lease_record.newest_prefix(store, lease_record.read(store))
    if found is None:
        raise DrillRefused(f"nothing has been replicated to {without_secrets(url)} yet: nothing could be restored")
    return found


class DeadWriter:
    """The file of a writer that was killed, in the state in which its last commit left it. Close it."""

    def __init__(self, database: Path) -> None:
        self._conn = open_connection(database, readonly=True)
        self._conn.execute("BEGIN")
        scalar(self._conn, "SELECT count(*) FROM sqlite_schema")  # from here it sees the state of this moment
        self._bytes = database.stat().st_size

    def restore_and_compare(
        self, url: str, prefix: ReplicaPrefix, folder: Path, environ: Mapping[str, str]
    ) -> DrillResult:
        """Restore the newest state of *prefix* to *folder*, check it, and compare every table.

        Raises:
            RestoreUnfinished: it took too long, which says nothing of the replica.
        """
        source, target = prefix_url(url, prefix.path), folder / "restored.db"
        begun_s = time.monotonic()
        position: str | None = None
        damage = "Litestream finds nothing there"
        try:
            position = asyncio.run(restore(source, target, environ, RESTORE_LIMIT_S, check="none"))
        except ReplicaRefused as error:
            damage = str(error)
        restored_s = time.monotonic()
        if position is None:
            return self._damaged(source, damage, restored_s - begun_s)
        there = open_connection(target, readonly=True)
        try:
            problem = _integrity_problem(there)
            checked_s = time.monotonic()
            if problem is not None:
                return self._damaged(source, problem, restored_s - begun_s)
            return self._compare(there, source, position, restored_s - begun_s, checked_s - restored_s, checked_s)
        finally:
            there.close()

    def close(self) -> None:
        """Stop looking at the file."""
        self._conn.close()

    def _compare(
        self, there: apsw.Connection, source: str, position: str, restore_s: float, check_s: float, begun_s: float
    ) -> DrillResult:
        here = self._conn
        mine = table_digests.read(here)
        unequal = table_digests.differences(mine, table_digests.read(there))
        found = tuple(compare(here, there, each.table) for each in unequal if each.table != "sqlite_schema")
        is_same_history = len(found) == len(unequal) and _is_earlier(here, there)
        return DrillResult(
            outcome="equal" if not unequal else "behind" if is_same_history else "differs",
            replica=without_secrets(source),
            position=position,
            tables=len(mine),
            rows=sum(each.rows for each in mine.values()),
            bytes=self._bytes,
            differences=found,
            lost_ms=max(0, _newest_event_at(here) - _newest_event_at(there)),
            lost_messages=tuple(_lost_messages(here, there)),
            restore_s=restore_s,
            check_s=check_s,
            compare_s=time.monotonic() - begun_s,
        )

    def _damaged(self, source: str, damage: str, restore_s: float) -> DrillResult:
        return DrillResult(
            "damaged", without_secrets(source), "", 0, 0, self._bytes, (), 0, (), restore_s, 0.0, 0.0, damage
        )


def _integrity_problem(conn: apsw.Connection) -> str | None:
    """Why SQLite calls the file damaged, or None."""
    try:
        found = [text for (text,) in rows(conn, "PRAGMA integrity_check") if text != "ok"]
        broken = rows(conn, "PRAGMA foreign_key_check")
    except (apsw.CorruptError, apsw.NotADBError) as error:
        return str(error)
    if found:
        return f"the restored file is damaged: {found[0]}"
    return f"the restored file breaks a foreign key of {broken[0][0]}" if broken else None


def _is_earlier(here: apsw.Connection, there: apsw.Connection) -> bool:
    """Whether the events there are the beginning of those here, but for old ones that were removed here meanwhile."""
    newest = scalar(there, "SELECT max(id) FROM events") or 0
    oldest = scalar(here, "SELECT min(id) FROM events") or 0
    if newest > (scalar(here, "SELECT max(id) FROM events") or 0):
        return False
    bounds = {"oldest": oldest, "newest": newest}
    pairs = zip_longest(here.execute(_EVENTS, bounds), there.execute(_EVENTS, bounds))
    return all(mine == its for mine, its in pairs)


def _newest_event_at(conn: apsw.Connection) -> int:
    return scalar(conn, "SELECT created_at FROM events ORDER BY id DESC LIMIT 1") or 0


def _lost_messages(here: apsw.Connection, there: apsw.Connection) -> list[str]:
    newest = scalar(there, "SELECT max(id) FROM messages") or 0
    return [
        name
        for (name,) in rows(
            here, "SELECT message_id FROM messages WHERE id > :newest ORDER BY id LIMIT 20", {"newest": newest}
        )
    ]
