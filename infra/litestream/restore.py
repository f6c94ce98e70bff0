"""Makes the database ready to go on, and takes the lease: ``python -m infra.restore``, before anything opens the file.

With ``POSTROOM_DB`` and ``POSTROOM_REPLICA_URL`` set. ``--wait 2m`` waits until another machine's lease has run out, or
the bucket answers. ``--output FILE`` only writes a copy of the newest state, or of the state at ``--timestamp``,
whichever machine holds the lease.

- No file, nothing replicated: a first start. No file, but a replica: the file is restored, whole or not at all, and
  what follows is a new epoch under a new prefix. A replica that has files and can't be restored ends the start: an
  empty database would take its place.
- A file goes on in its prefix if it is certainly the newest state. That is so when its epoch is the replica's, no event
  that the replica knew is missing in it, and nothing in the replica goes beyond what was sent from here. If Litestream
  did not end in good order (``infra/litestream/local_state.py``), the file goes on as the same epoch under a new
  prefix.
- A file that is certainly not the newest state ends the start: an older copy, or a file of another history. Only people
  can know which of two histories they have lived in. ``--keep-file`` says that it is the file's.
- In between, the replica is restored beside the file and compared, and then a new epoch begins from the file. That is
  so when the file came from another machine, Litestream's local state is gone, or the replica is from before epochs.

Ends with 0; 65 the file or the replica is refused; 69 the bucket does not answer, or the file can't be opened; 73
another machine has the lease; 78 the environment is wrong.
"""

import argparse
import asyncio
import os
import time
from datetime import UTC, datetime
from pathlib import Path

from infra.litestream.lease import Lease, LeaseHeld, lease_on
from infra.litestream.prepare import RESTORE_LIMIT_S, prepare_replication
from infra.litestream.replica_settings import lease_ms_from, replica_url, setting
from infra.litestream.restored_files import FileRefused, ReplicaRefused, restore
from infra.litestream.supervision.trouble_report import TroubleReport
from shared.core import logs
from shared.core.errors import ConfigInvalid, DatabaseUnavailable, InUse, PostroomError
from shared.core.time.durations import parse_ms
from shared.db.engine.lock import WorkerLock
from shared.db.engine.owner_only import make_folder
from shared.db.replica import lease_record
from shared.db.replica.credentials import CredentialsUnreachable
from shared.db.replica.object_store import open_store
from shared.db.replica.stored_objects import StoreRefused, StoreUnreachable

STORE_AWAY = (StoreUnreachable, StoreRefused, CredentialsUnreachable)  # it may come back
_WAIT_STEP_S = 1.0

log = logs.get()


def exit_code(error: PostroomError) -> int:
    """The exit code of a program that ends with *error*."""
    if isinstance(error, InUse):
        return os.EX_CANTCREAT
    if isinstance(error, (*STORE_AWAY, DatabaseUnavailable)):
        return os.EX_UNAVAILABLE
    return os.EX_CONFIG if isinstance(error, ConfigInvalid) else os.EX_DATAERR


def own_lease(database: Path, url: str) -> Lease:
    """The lease of this environment's replica, for the owner beside *database*; not taken yet."""
    owner_file = database.with_name(f"{database.name}-owner")
    return lease_on(url, owner_file, database, os.environ, lease_ms_from(os.environ))


def lock_replication(database: Path) -> WorkerLock:
    """The right to restore and to replicate the file, among the processes of this machine.

    Raises:
        LeaseHeld: another process has it. To the lease both would be the same owner, and that one would lose it to us.
    """
    make_folder(database.parent)
    lock = WorkerLock(database, "replicate")
    if not lock.try_acquire():
        raise LeaseHeld(f"another process of this machine replicates {database}: stop it first. Nothing was touched")
    return lock


async def _run(options: argparse.Namespace) -> None:
    url = replica_url()
    if options.output is not None:
        await _write_copy(url, options.output, options.timestamp)
        return
    database = Path(setting("POSTROOM_DB"))
    lock = lock_replication(database)
    lease = own_lease(database, url)
    deadline = time.monotonic() + options.wait / 1000
    waiting = TroubleReport(log.warning, "restore.waiting")
    while True:
        try:
            ready = await prepare_replication(database, url, lease, os.environ, keep_file=options.keep_file)
            break
        except (LeaseHeld, *STORE_AWAY) as error:
            if time.monotonic() >= deadline:
                raise
            waiting.see(str(error))
        await asyncio.sleep(_WAIT_STEP_S)
    lock.release()
    facts = {"step": ready.step.name.lower(), "replica": ready.url, "txid": ready.txid}
    log.info("restore.ready", **facts, events_missing=ready.events_missing)


async def _write_copy(url: str, target: Path, at: datetime | None) -> None:
    store = open_store(url, os.environ)
    prefixes = lease_record.full_prefixes(store, lease_record.read(store))
    if at is not None:
        prefixes = [prefix for prefix in prefixes if prefix.began_at <= at.timestamp() * 1000] or prefixes[:1]
    position = ["-timestamp", at.astimezone(UTC).isoformat().replace("+00:00", "Z")] if at else []
    source = lease_record.prefix_url(url, prefixes[-1].path) if prefixes else url
    txid = await restore(source, target, os.environ, RESTORE_LIMIT_S, *position) if prefixes else None
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
        "--wait",
        type=parse_ms,
        default=0,
        metavar="DURATION",
        help="how long to wait for another machine's lease, or the bucket, such as 2m",
    )
    parser.add_argument("--keep-file", action="store_true", help="trust the file, not the replica")
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
    except OSError as error:
        log.error("restore.refused", reason=f"{error.strerror}: {error.filename}")
        return os.EX_UNAVAILABLE
    return 0
