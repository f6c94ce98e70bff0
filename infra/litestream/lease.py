"""The lease on a replica: one machine at a time replicates to it, and the others find out before they touch anything.

``python -m infra.lease`` shows which machine holds the lease of ``POSTROOM_REPLICA_URL``, and where the newest state
is.

- The lease lasts for a time (``POSTROOM_REPLICA_LEASE``, 60 s) without renewal, by the clock of the object store. When
  it has run out or was given back, any machine may take it; of two at once, one succeeds.
- The same owner at the same place takes it at once, so a restart after a crash waits for nothing
  (``infra/litestream/lease_owner.py``). A clone of its disk is at another place, and waits.
- Each taking has its own token. An owner that finds another token at a renewal has lost the lease, for good.
"""

import asyncio
import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from infra.litestream.lease_owner import LeaseOwner, new_token, owner_of
from infra.litestream.replica_settings import LEASE_MS, replica_url
from shared.core import ids
from shared.core.errors import ConfigInvalid, InUse, PostroomError
from shared.core.time import clock
from shared.db.replica import lease_record, sync_permit
from shared.db.replica.lease_record import NAME, NO_RECORD, LeaseRecord, ReplicaPrefix
from shared.db.replica.object_store import ObjectStore, open_store
from shared.db.replica.stored_objects import ObjectChanged, ReplicaObject

_MARGIN_S = 1.0  # object stores report times in whole seconds
_TRIES = 4
RENEWALS = 4  # in the time that the lease lasts

T = TypeVar("T")


class LeaseHeld(InUse):
    """Another machine holds the lease, and its lease has not run out."""


class LeaseLost(InUse):
    """The lease was ours, and another machine has taken it."""


def lease_on(url: str, owner_file: Path, database: Path, environ: Mapping[str, str], ttl_ms: int = LEASE_MS) -> "Lease":
    """The lease of the replica at *url*, for the owner in *owner_file*; not taken yet."""
    return Lease(open_store(url, environ), owner_of(owner_file, database), ttl_ms)


class Lease:
    """The lease on one replica: take it, renew it, give it back. Its methods wait in a thread, one at a time."""

    def __init__(self, store: ObjectStore, owner: LeaseOwner, ttl_ms: int = LEASE_MS) -> None:
        self.store = store
        self.owner = owner
        self.ttl_ms = ttl_ms
        # By :func:`shared.db.replica.sync_permit.now_s`:
        self.until_s = 0.0  # until then no other machine can take it
        self.renewed_s = 0.0  # when the newest write that succeeded was asked for
        self._tag: str | None = None
        self._record: LeaseRecord | None = None
        self._before: LeaseRecord | None = None  # what stood there when the lease was taken
        self._unanswered: list[bytes] = []  # writes that may have arrived
        self._turn = threading.Lock()

    @property
    def record(self) -> LeaseRecord:
        """The lease record as this owner last wrote it."""
        if self._record is None:
            raise RuntimeError("the lease was not taken")
        return self._record

    @property
    def may_another_write(self) -> bool:
        """Whether the holder before us may be alive, and may still write to the prefix that it had.

        That is so when it was at another place, and did not give the lease back. It may have our owner id.
        """
        there = self._before
        return there is not None and not there.is_released and not self.owner.took(there)

    async def take(
        self,
        check: Callable[[LeaseRecord], None] = lambda there: None,
        *,
        run_out: ReplicaObject | None = None,
    ) -> LeaseRecord:
        """Take the lease. The record's prefixes stay as they are.

        Args:
            check: may refuse, by raising, when it has seen the record and before anything is written.
            run_out: a version of the record that stayed for longer than its lease lasts, by this machine's clock.

        Raises:
            LeaseHeld: says which machine has it, since when, and what to do.
        """
        return await in_daemon_thread(lambda: self._take(check, run_out))

    async def renew(self, *, newest_event_id: int) -> None:
        """Go on holding the lease.

        Raises:
            LeaseLost: another machine has it now.
            StoreUnreachable: nothing is known; try again.
        """
        await self._change(lambda there: replace(there, newest_event_id=newest_event_id))

    @contextlib.asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Renew the lease during the block, which may take longer than the lease lasts.

        A renewal that fails is not reported: if the lease is lost, the next change of the record raises LeaseLost.
        """
        keeping = asyncio.create_task(self._keep())
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self.ttl_ms / 1000 / RENEWALS)
            with contextlib.suppress(PostroomError):
                await self._change(lambda there: there)

    async def note_full_copy(self, prefix: ReplicaPrefix, epoch: str | None) -> None:
        """Note that *prefix* has a full copy; see :meth:`shared.db.replica.lease_record.LeaseRecord.with_full_copy`."""
        await self._change(lambda there: there.with_full_copy(prefix, epoch))

    async def begin_prefix(self, prefix: ReplicaPrefix, keeping: ReplicaPrefix | None) -> None:
        """Move to a new prefix; see :meth:`shared.db.replica.lease_record.LeaseRecord.with_new_prefix`."""
        await self._change(lambda there: there.with_new_prefix(prefix, keeping=keeping))

    async def begin_prefix_of_same_epoch(self) -> None:
        """Move to a new prefix with the same history, because the files in the present one can't be relied on."""
        there = self.record
        newest = await self.ask_store(lambda store: lease_record.newest_prefix(store, there))
        await self.begin_prefix(
            ReplicaPrefix(ids.new("epoch"), there.current.epoch, self.owner.id, clock.machine_ms()), newest
        )

    async def forget_old_prefix(self, prefix: ReplicaPrefix) -> None:
        """Note that an old prefix has no files any more."""
        await self._change(lambda there: there.without_old_prefix(prefix))

    async def release(self, newest_event_id: int | None = None) -> None:
        """Give the lease back, so that the next owner need not wait."""
        await self._change(
            lambda there: replace(
                there,
                is_released=True,
                newest_event_id=there.newest_event_id if newest_event_id is None else newest_event_id,
            )
        )

    async def ask_store(self, question: Callable[[ObjectStore], T]) -> T:
        """Ask the store something else, in a thread too."""
        return await in_daemon_thread(lambda: question(self.store))

    async def _change(self, change: Callable[[LeaseRecord], LeaseRecord]) -> None:
        await in_daemon_thread(lambda: self._write(change))

    def _take(self, check: Callable[[LeaseRecord], None], run_out: ReplicaObject | None = None) -> LeaseRecord:
        with self._turn:
            for _ in range(_TRIES):
                found = self.store.get(NAME)
                there = LeaseRecord.load(found.body) if found else None
                if there is not None and found is not None:
                    if found != run_out:
                        self._refuse_if_held(there, found)
                    check(there)
                taken = self._taken(there, clock.machine_ms())
                try:
                    self._put(taken, replacing=found.tag if found else None)
                except ObjectChanged:
                    continue  # read it again: another machine was quicker, perhaps to give it back
                self._before = there
                return taken
            raise LeaseHeld(
                "the replica's lease changes hands all the time. Is the same folder started on several machines? Let "
                "one run, and give the others a replica URL of their own"
            )

    def _refuse_if_held(self, there: LeaseRecord, found: ReplicaObject) -> None:
        if there.is_released or self.owner.took(there):
            return
        age_s = max(0.0, self.store.now_s() - found.written_at_s)
        left_s = there.ttl_ms / 1000 + _MARGIN_S - age_s
        if left_s > 0:
            ours = (
                "It has this machine's owner id: it is a clone of this disk, or this machine before it was started "
                "again. "
            )
            raise LeaseHeld(
                f"another machine replicates to this replica: {describe(there)}. It renewed its lease "
                f"{age_s:.0f} s ago. {ours if there.owner == self.owner.id else ''}Two machines would write two "
                f"histories, so nothing was started and nothing touched.\n"
                f"  if it is alive      stop it there first: it gives the lease back\n"
                f"  if it is gone       try again in {left_s:.0f} s, when its lease has run out\n"
                f"  if both should run  give this one another replica URL"
            )

    def _taken(self, there: LeaseRecord | None, now: int) -> LeaseRecord:
        if there is None:
            there = NO_RECORD
        return replace(
            there,
            owner=self.owner.id,
            token=new_token(self.owner),
            host=self.owner.host,
            database=self.owner.database,
            acquired_at=now,
            renewed_at=now,
            ttl_ms=self.ttl_ms,
            is_released=False,
        )

    def _write(self, change: Callable[[LeaseRecord], LeaseRecord]) -> None:
        with self._turn:
            wanted = replace(change(self.record), renewed_at=clock.machine_ms())
            for _ in range(_TRIES):
                try:
                    self._put(wanted, replacing=self._tag)
                except ObjectChanged:
                    self._tag = self._tag_of_ours()
                    continue
                return
            raise LeaseLost(
                "two processes write the replica's lease under one owner id: find the other one, and let only one run"
            )

    def _put(self, wanted: LeaseRecord, *, replacing: str | None) -> None:
        asked_s = sync_permit.now_s()  # the store counts from the moment of its write, which is later
        body = wanted.dump()
        self._unanswered.append(body)
        try:
            tag = self.store.put(NAME, body, replacing=replacing)
        except ObjectChanged:
            found = self.store.get(NAME)  # a slow store: it had written, and the second attempt came before its answer
            if found is None or found.body != body:
                raise
            tag = found.tag
        self._tag, self._record = tag, wanted
        self._unanswered.clear()
        self.renewed_s = asked_s
        self.until_s = 0.0 if wanted.is_released else asked_s + wanted.ttl_ms / 1000

    def _tag_of_ours(self) -> str:
        """The object's tag, if an earlier write of ours arrived although its answer did not.

        Raises:
            LeaseLost
        """
        found = self.store.get(NAME)
        there = LeaseRecord.load(found.body) if found else None
        if found is None or there is None or there.token != self.record.token:
            who = f"{describe(there)} has" if there else f"{NAME} was deleted, and other machines may have"
            raise LeaseLost(
                f"this machine may no longer replicate: {who} taken over. What was written here since then is in this "
                f"machine's file only. Stop everything here; to continue here, stop it there"
            )
        if found.body not in (self.record.dump(), *self._unanswered):
            raise LeaseLost(
                f"this machine may no longer replicate: a copy of this process, such as a cloned virtual machine, "
                f"renews the lease of {describe(there)}. Stop everything here, or there"
            )
        return found.tag


def describe(there: LeaseRecord) -> str:
    """The holder of the lease, in words."""
    since = datetime.fromtimestamp(there.acquired_at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{there.host} ({there.database}, {there.owner}), since {since}"


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """Wait for *work* in a thread that does not keep the process from ending, as the event loop's own threads would."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        try:
            outcome: tuple[T | None, BaseException | None] = (work(), None)
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            outcome = (None, error)
        with contextlib.suppress(RuntimeError):  # the loop has ended, and with it the caller
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, daemon=True).start()
    return await done


def main() -> int:
    """Show the lease."""
    if not os.environ.get("POSTROOM_REPLICA_URL"):
        sys.stderr.write(
            "error: POSTROOM_REPLICA_URL is not set: set it to the URL of the replica whose lease you want to see, "
            "such as s3://bucket/postroom, as in the environment of infra.replicate\n"
        )
        return os.EX_CONFIG
    try:
        url = replica_url()
        store = open_store(url, os.environ)
        there = lease_record.read(store)
        newest = lease_record.newest_prefix(store, there)
        found = store.get(NAME)
    except ConfigInvalid as error:
        sys.stderr.write(f"error: {error}\n")
        return os.EX_CONFIG
    except PostroomError as error:
        sys.stderr.write(f"error: {error}\n")
        return os.EX_UNAVAILABLE
    facts: dict[str, Any] = {
        "replica": url,
        "current": lease_record.prefix_url(url, newest.path) if newest else None,
        "epoch": newest.epoch if newest else None,
        "holder": None,
    }
    if there is not None and found is not None:
        age_s = max(0.0, time.time() - found.written_at_s)  # by our clock: the store's would need the right to write
        is_live = not there.is_released and age_s < there.ttl_ms / 1000 + _MARGIN_S
        facts |= {
            "holder": describe(there) if is_live else None,
            "last_holder": describe(there),
            "renewed_s_ago": round(age_s),
            "earlier": [lease_record.prefix_url(url, old.path) for old in there.old_prefixes],
        }
    sys.stdout.write(json.dumps(facts, indent=2) + "\n")
    return 0
