"""Makes the database ready to go on, and the lease ours: ``python -m infra.restore``, before anything opens the file.

With ``POSTROOM_DB`` and ``POSTROOM_REPLICA_URL`` set. ``--wait 2m`` waits for somebody else's lease to run out, or for
the bucket to answer; ``--output FILE`` only writes a copy of the newest state, or of that at ``--timestamp``, whoever
holds the lease.

- No file, nothing replicated: a first start. No file, but a replica: it is restored, whole or not at all, and what
  follows is a new epoch under a new prefix. A replica that holds something and can't be restored ends the start: an
  empty database would take its place.
- A file goes on where it was replicated to if it is certain that it is the newest: its epoch is the replica's, no event
  that the replica knew is missing in it, and nothing in the replica goes beyond what was sent from here. If Litestream
  did not end in good order (``infra/litestream/local_state.py``), it goes on as the same epoch under a new prefix.
- A file that is certainly not the newest, an older copy or one of another history, ends the start: which of two
  histories people have lived in, nobody but people knows. ``--keep-file`` says that it is the file's.
- In between (the file came from another machine, Litestream's notes beside it are gone, the replica is one of before
  there were epochs) the replica is restored beside it and compared; then a new epoch begins from the file.

Ends with 0; 65 the file or the replica is refused; 69 the bucket does not answer; 73 the lease is somebody else's;
78 the environment is wrong.
"""

import argparse
import asyncio
import os
import time
from datetime import UTC, datetime
from pathlib import Path

from infra.litestream.lease import Lease, LeaseHeld, owner_of, ttl_from
from infra.litestream.prepare import RESTORE_LIMIT_S, prepare
from infra.litestream.restore_command import FileRefused, ReplicaRefused, fetch
from shared.core import logs
from shared.core.durations import parse_ms
from shared.core.errors import ConfigInvalid, InUse, PostroomError
from shared.db.engine.lock import WorkerLock
from shared.replica import lease_record
from shared.replica.credentials import CredentialsUnreachable
from shared.replica.object_store import StoreRefused, StoreUnreachable, open_store

AWAY = (StoreUnreachable, StoreRefused, CredentialsUnreachable)  # the bucket: it may come back
_WAIT_STEP_S = 1.0

log = logs.get()


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
        return os.EX_CANTCREAT
    if isinstance(error, AWAY):
        return os.EX_UNAVAILABLE
    return os.EX_CONFIG if isinstance(error, ConfigInvalid) else os.EX_DATAERR


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
    places = lease_record.places(store, lease_record.read(store))
    if at is not None:
        places = [place for place in places if place.began_at <= at.timestamp() * 1000] or places[:1]
    position = ["-timestamp", at.astimezone(UTC).isoformat().replace("+00:00", "Z")] if at else []
    source = lease_record.at(url, places[-1].prefix) if places else url
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
