"""Makes the database file and its replica agree, before anything opens the file.

``infra/litestream/restore.py`` says how.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum, auto
from pathlib import Path

from infra.litestream import local_state
from infra.litestream.lease import Lease
from infra.litestream.restore_command import (
    Facts,
    FileRefused,
    ReplicaRefused,
    facts_of,
    fetch,
    is_missing,
    remove,
    stamp,
)
from shared.core import clock, ids
from shared.core.errors import PostroomError
from shared.replica import lease_record
from shared.replica.lease_record import Place, Pointer
from shared.replica.object_store import ObjectStore

RESTORE_LIMIT_S = 3600.0


class Step(Enum):
    """How a start goes on."""

    FIRST = auto()
    RESTORE = auto()
    CONTINUE = auto()
    AGAIN = auto()  # the same history, with a whole copy in a new place
    COMPARE = auto()
    BEGIN = auto()


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


def check_file(file: Facts, there: Pointer, *, us: str) -> None:
    """Refuse a file that is certainly not the newest state of the replica.

    Raises:
        FileRefused
    """
    # We may have named its first place, and ended before the file was marked: what may be there is compared.
    is_unmarked = there.place.writer == us and not there.is_begun and not there.earlier
    before = there.earlier[-1].epoch if there.earlier and not there.is_begun else there.place.epoch
    is_known = is_unmarked or there.place.epoch is None or before is None
    if not is_known and file.epoch not in (there.place.epoch, before):
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
    us = lease.owner.id
    there = await lease.take(lambda there: check_file(file, there, us=us) if file and not keep_file else None)
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
        position = local_state.position(self._database)
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
        if step is Step.CONTINUE and not local_state.are_good(self._database):
            return await self._again()
        if step is Step.CONTINUE:
            if current != there.place:
                local_state.forget(self._database)
            return Ready(lease_record.at(self._url, there.place.prefix), step)
        if step is Step.RESTORE and current is not None:
            if not may_restore:
                raise FileRefused(f"{self._database} is missing: run `python -m infra.restore` before anything else")
            return await self._restore(current)
        ready = await self._begin(step, there, current)
        return replace(ready, is_anew=step is Step.BEGIN and current is None and position is not None)

    async def _restore(self, current: Place) -> Ready:
        fresh = _beside(self._database, ".restoring")
        txid = await fetch(lease_record.at(self._url, current.prefix), fresh, self._environment, self._limit_s)
        if txid is None:
            raise ReplicaRefused(
                f"{self._database.name} is missing and can't be restored from "
                f"{lease_record.at(self._url, current.prefix)}: "
                f"there is something, but its beginning is missing. Nothing was changed, and nothing was started empty"
            )
        place = self._new_place()
        stamp(fresh, place.prefix)
        await self._lease.begin(place, current)
        # Leftovers of the lost file would be applied to the restored one, which has another history.
        remove(self._database)
        fresh.replace(self._database)
        return Ready(lease_record.at(self._url, place.prefix), Step.RESTORE, txid)

    async def _compare(self, file: Facts, current: Place) -> None:
        """Restore beside the file, and see that nothing in the replica is missing in it."""
        beside = _beside(self._database, ".comparing")
        try:
            source = lease_record.at(self._url, current.prefix)
            if await fetch(source, beside, self._environment, self._limit_s) is None:
                raise ReplicaRefused(
                    f"{source} holds something, but its beginning is missing, so nobody "
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
        local_state.forget(self._database)  # not before: without them nobody would know that the file is the newest
        return Ready(lease_record.at(self._url, self._lease.pointer.place.prefix), Step.AGAIN)

    async def _begin(self, step: Step, there: Pointer, current: Place | None) -> Ready:
        """A new place: for a database that is still to be made, or for the file that is there."""
        place = self._new_place()
        if step is Step.FIRST:
            remove(self._database)
            place = Place(place.prefix, None, place.writer, place.began_at)  # the database will name its epoch
            if there.place.writer == place.writer and not there.is_begun:
                return Ready(lease_record.at(self._url, there.place.prefix), step)
        else:
            local_state.forget(self._database)
        await self._lease.begin(place, current)
        if step is Step.BEGIN:
            stamp(self._database, place.prefix)
        return Ready(lease_record.at(self._url, place.prefix), step)

    def _new_place(self) -> Place:
        epoch = ids.new("epoch")
        return Place(epoch, epoch, self._lease.owner.id, clock.now_ms())


def _survey(store: ObjectStore, there: Pointer, position: str | None) -> tuple[Place | None, bool, bool]:
    """Where the newest state is; whether nothing there goes beyond *position*; whether what should be there is gone."""
    current = lease_record.locate(store, there)
    if current is None:
        return None, False, False
    is_empty = not lease_record.holds(store, current)
    newest = current.within(store.newest_ltx_files)
    is_certain = (
        position is not None
        and not is_empty
        and store.first(newest, after=f"{newest}{position}-{position}.ltx") is None
    )
    return current, is_certain, is_empty


def _beside(database: Path, suffix: str) -> Path:
    return database.with_name(database.name + suffix)
