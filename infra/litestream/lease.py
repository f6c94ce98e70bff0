"""The lease on a replica: one machine at a time replicates to it, and the others find out before they touch anything.

``python -m infra.lease`` shows who holds that of ``POSTROOM_REPLICA_URL``, and where the state is.

- It lasts for a time (``POSTROOM_REPLICA_LEASE``, 60 s) without renewal, measured by the store's own clock. Expired or
  given back, anybody takes it; of two at once one succeeds.
- The same owner takes it at once, so that a restart after a crash waits for nothing. An owner is a file beside its
  database; a copy of the file, to another machine or another folder, is another owner.
- Each taking has a token of its own. Whoever finds another's when it renews has lost the lease, for good.
"""

import asyncio
import contextlib
import json
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from shared.core import clock, ids
from shared.core.durations import parse_ms
from shared.core.errors import ConfigInvalid, InUse, PostroomError
from shared.replica import lease_record as pointer
from shared.replica import sync_permit
from shared.replica.lease_record import NAME, Place, Pointer
from shared.replica.object_store import ObjectChanged, ObjectStore, ReplicaObject, open_store

TTL_MS = 60_000
_MARGIN_S = 1.0  # stores tell times in whole seconds
_TRIES = 4

T = TypeVar("T")


class LeaseHeld(InUse):
    """Somebody else holds it, and lives."""


class LeaseLost(InUse):
    """It was ours, and somebody else has taken it."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Who takes leases: an id that stays over restarts, and where that is, for people."""

    id: str
    host: str
    database: str


def owner_of(path: Path, database: Path) -> Owner:
    """The owner whose id is kept in the file *path*; a new one when there is none, or when it is a copy.

    The file names its own inode: what was copied, unpacked or synchronised has another.
    """
    try:
        with path.open() as file:
            facts = json.load(file)
            if facts["inode"] == os.fstat(file.fileno()).st_ino:
                return Owner(str(facts["id"]), socket.gethostname(), str(database))
    except (OSError, ValueError, KeyError, TypeError):
        pass  # a new one: at worst it has to wait until its own lease expires
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".tmp")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w") as file:
        owner = Owner(ids.new("owner"), socket.gethostname(), str(database))
        json.dump({"id": owner.id, "inode": os.fstat(handle).st_ino}, file)
        file.flush()
        os.fsync(handle)
    fresh.replace(path)
    return owner


def ttl_from(environ: Mapping[str, str]) -> int:
    """``POSTROOM_REPLICA_LEASE`` in ms.

    Raises:
        ConfigInvalid
    """
    text = environ.get("POSTROOM_REPLICA_LEASE")
    try:
        found = parse_ms(text) if text else TTL_MS
    except ValueError as error:
        raise ConfigInvalid(f"POSTROOM_REPLICA_LEASE: {error}") from None
    if found < 1000:
        raise ConfigInvalid("POSTROOM_REPLICA_LEASE: at least 1s, because stores tell times in whole seconds")
    return found


class Lease:
    """Ours to take, to renew and to give back. Its methods wait in a thread; one at a time."""

    def __init__(self, store: ObjectStore, owner: Owner, ttl_ms: int = TTL_MS) -> None:
        self.store = store
        self.owner = owner
        self.ttl_ms = ttl_ms
        self.until_s = 0.0  # nobody else can have taken it before then, by :func:`shared.replica.sync_permit.now_s`
        self._tag: str | None = None
        self._pointer: Pointer | None = None
        self._turn = threading.Lock()

    @property
    def pointer(self) -> Pointer:
        """As it was last written."""
        if self._pointer is None:
            raise RuntimeError("the lease was not taken")
        return self._pointer

    async def take(self, check: Callable[[Pointer], None] = lambda there: None) -> Pointer:
        """Take it. What the pointer says of the place is untouched.

        Args:
            check: may refuse, by raising, when it has seen the pointer that is there and before anything is written.

        Raises:
            LeaseHeld: says who has it, since when, and what to do.
        """
        return await aside(lambda: self._take(check))

    async def renew(self, **changes: Any) -> None:
        """Go on holding it, with *changes* of the pointer.

        Raises:
            LeaseLost: it is somebody else's now.
            StoreUnreachable: nobody knows; try again.
        """
        await aside(lambda: self._write(lambda there: replace(there, **changes)))

    async def begun(self, place: Place, epoch: str | None) -> None:
        """Note that *place* has a whole copy; see :meth:`shared.replica.lease_record.Pointer.begun`."""
        await aside(lambda: self._write(lambda there: there.begun(place, epoch)))

    async def begin(self, place: Place, keeping: Place | None) -> None:
        """Move to a new place; see :meth:`shared.replica.lease_record.Pointer.moved`."""
        await aside(lambda: self._write(lambda there: there.moved(place, keeping=keeping)))

    async def begin_again(self) -> None:
        """Move to a new place with the same history: what was sent to the present one can't be relied on."""
        there = self.pointer
        current = await self.look(lambda store: pointer.locate(store, there))
        await self.begin(Place(ids.new("epoch"), there.place.epoch, self.owner.id, clock.now_ms()), current)

    async def forget(self, place: Place) -> None:
        """Of an earlier *place*, nothing is left."""
        await aside(lambda: self._write(lambda there: there.without(place)))

    async def release(self, mark: int | None = None) -> None:
        """Give it back, so that the next one need not wait."""
        await aside(
            lambda: self._write(
                lambda there: replace(there, is_released=True, mark=there.mark if mark is None else mark)
            )
        )

    async def look(self, question: Callable[[ObjectStore], T]) -> T:
        """Ask the store something else, in a thread too."""
        return await aside(lambda: question(self.store))

    def _take(self, check: Callable[[Pointer], None]) -> Pointer:
        with self._turn:
            for _ in range(_TRIES):
                found = self.store.get(NAME)
                there = Pointer.load(found.body) if found else None
                if there is not None and found is not None:
                    self._refuse_if_held(there, found)
                    check(there)
                taken = self._taken(there, clock.now_ms())
                try:
                    self._put(taken, replacing=found.tag if found else None)
                except ObjectChanged:
                    continue  # look again: somebody was quicker, perhaps to give it back
                return taken
            raise LeaseHeld(
                "the replica's lease changes hands all the time: is the same folder started in many places?"
            )

    def _refuse_if_held(self, there: Pointer, found: ReplicaObject) -> None:
        if there.owner == self.owner.id or there.is_released:
            return
        age_s = max(0.0, self.store.now_s() - found.written_at_s)
        left_s = there.ttl_ms / 1000 + _MARGIN_S - age_s
        if left_s > 0:
            raise LeaseHeld(
                f"another machine replicates to this replica: {describe(there)}. It renewed its lease "
                f"{age_s:.0f} s ago. Two would write two histories, so nothing was started and nothing touched.\n"
                f"  if it is alive      stop it there first: it gives the lease back\n"
                f"  if it is gone       try again in {left_s:.0f} s, when its lease has run out\n"
                f"  if both should run  give this one another replica URL"
            )

    def _taken(self, there: Pointer | None, now: int) -> Pointer:
        if there is None:
            there = Pointer("", "", "", "", 0, 0, 0, False, Place("", None, "", 0), False, 0, ())
        return replace(
            there,
            owner=self.owner.id,
            token=secrets.token_hex(8),
            host=self.owner.host,
            database=self.owner.database,
            acquired_at=now,
            renewed_at=now,
            ttl_ms=self.ttl_ms,
            is_released=False,
        )

    def _write(self, change: Callable[[Pointer], Pointer]) -> None:
        with self._turn:
            wanted = replace(change(self.pointer), renewed_at=clock.now_ms())
            for _ in range(_TRIES):
                try:
                    self._put(wanted, replacing=self._tag)
                except ObjectChanged:
                    self._tag = self._tag_of_ours()
                    continue
                return
            raise LeaseLost("the replica's lease is written by two at once, under one name: only one may run")

    def _put(self, wanted: Pointer, *, replacing: str | None) -> None:
        asked_s = sync_permit.now_s()  # the store counts from when it has written, which is later
        body = wanted.dump()
        try:
            tag = self.store.put(NAME, body, replacing=replacing)
        except ObjectChanged:
            found = self.store.get(NAME)  # a slow store: it has written, and we asked again before it answered
            if found is None or found.body != body:
                raise
            tag = found.tag
        self._tag, self._pointer = tag, wanted
        self.until_s = 0.0 if wanted.is_released else asked_s + wanted.ttl_ms / 1000

    def _tag_of_ours(self) -> str:
        """An earlier write of ours may have arrived although its answer did not."""
        found = self.store.get(NAME)
        there = Pointer.load(found.body) if found else None
        if found is None or there is None or there.token != self.pointer.token:
            who = f"{describe(there)} has" if there else "somebody deleted it, and others may have"
            raise LeaseLost(
                f"this machine may no longer replicate: {who} taken over. What was written here since then is in this "
                f"machine's file only. Stop everything here; to go on here, stop it there"
            )
        return found.tag


def describe(there: Pointer) -> str:
    """Who holds it, in words."""
    since = datetime.fromtimestamp(there.acquired_at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{there.host} ({there.database}, {there.owner}), since {since}"


async def aside(work: Callable[[], T]) -> T:
    """Wait for *work* in a thread that keeps nobody from ending, as the loop's own threads would."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        try:
            outcome: tuple[T | None, BaseException | None] = (work(), None)
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            outcome = (None, error)
        with contextlib.suppress(RuntimeError):  # the loop has ended, and with it whoever waited
            loop.call_soon_threadsafe(tell, *outcome)

    threading.Thread(target=run, daemon=True).start()
    return await done


def main() -> int:
    """Show the lease."""
    url = os.environ.get("POSTROOM_REPLICA_URL", "")
    try:
        store = open_store(url, os.environ)
        there = pointer.read(store)
        place = pointer.locate(store, there)
        found = store.get(NAME)
    except PostroomError as error:
        sys.stderr.write(f"error: {error}\n")
        return os.EX_UNAVAILABLE
    facts: dict[str, Any] = {
        "replica": url,
        "current": pointer.at(url, place.prefix) if place else None,
        "epoch": place.epoch if place else None,
        "holder": None,
    }
    if there is not None and found is not None:
        age_s = max(0.0, time.time() - found.written_at_s)  # whoever only looks may not be allowed to write
        is_live = not there.is_released and age_s < there.ttl_ms / 1000 + _MARGIN_S
        facts |= {
            "holder": describe(there) if is_live else None,
            "last_holder": describe(there),
            "renewed_s_ago": round(age_s),
            "earlier": [pointer.at(url, earlier.prefix) for earlier in there.earlier],
        }
    sys.stdout.write(json.dumps(facts, indent=2) + "\n")
    return 0
