"""Makes the database file and its replica agree, before anything opens the file.

``infra/litestream/restore.py`` explains the rules.
"""

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum, auto
from pathlib import Path

from infra.litestream import local_state
from infra.litestream.lease import Lease
from infra.litestream.restored_files import (
    FileRefused,
    HistoryFacts,
    ReplicaRefused,
    is_missing,
    read_facts,
    read_restored_facts,
    remove,
    restore,
    write_epoch,
)
from shared.core import ids
from shared.core.errors import PostroomError
from shared.core.time import clock
from shared.db.queue import epochs
from shared.db.replica import lease_record
from shared.db.replica.lease_record import LeaseRecord, ReplicaPrefix, prefix_url
from shared.db.replica.object_store import ObjectStore
from shared.db.replica.stored_objects import ReplicaObject

RESTORE_LIMIT_S = 3600.0

# Puts a copy of the newest state of a prefix at a path; the position that it has, or None where there is no such copy.
WarmCopy = Callable[[ReplicaPrefix, Path], Awaitable[str | None]]


class Step(Enum):
    """How a start goes on."""

    FIRST = auto()  # no file, nothing replicated
    RESTORE = auto()
    CONTINUE = auto()
    AGAIN = auto()  # the same history, with a full copy under a new prefix
    COMPARE = auto()
    BEGIN = auto()  # a new epoch, from the file


@dataclass(frozen=True, slots=True)
class Ready:
    """Litestream may replicate the database to *url*.

    Args:
        txid: the position that was restored, if any was.
        is_started_over: the replica was gone, and begins again from the file.
        events_missing: how many events the last holder had noted that what was restored lacks: they had not arrived.
    """

    url: str
    step: Step
    txid: str | None = None
    is_started_over: bool = False
    events_missing: int = 0


def events_missing(restored: HistoryFacts, there: LeaseRecord) -> int:
    """How many events of the same epoch the last holder had noted, at least, beyond the newest that was restored."""
    beyond = there.newest_event_id - restored.newest_event_id
    if restored.epoch != there.current.epoch or beyond <= 0:
        return 0
    return beyond if beyond < epochs.STEP else 1  # else its first start, which leaves ids out, is not in the bucket


def check_file(file: HistoryFacts, there: LeaseRecord, *, us: str) -> None:
    """Refuse a file that is certainly not the newest state of the replica.

    Raises:
        FileRefused
    """
    # This machine may have named its first prefix and died before it wrote the epoch into the file: a comparison tells.
    is_unnamed = there.current.writer == us and not there.has_full_copy and not there.old_prefixes
    before = there.old_prefixes[-1].epoch if there.old_prefixes and not there.has_full_copy else there.current.epoch
    is_known = is_unnamed or there.current.epoch is None or before is None
    if not is_known and file.epoch not in (there.current.epoch, before):
        began = datetime.fromtimestamp(there.current.began_at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        raise FileRefused(
            f"the database file is of epoch {file.epoch}, and the replica continued with epoch {there.current.epoch}: "
            f"begun {began}, last written by {there.host} ({there.database}). The file is an older copy, or was left "
            f"behind when another machine took over. Continuing from one would lose what only the other has, so "
            f"nothing was changed"
        )
    if file.epoch == there.current.epoch and file.newest_event_id < there.newest_event_id:
        raise FileRefused(
            f"the database file is an older copy of what was replicated: its newest event is {file.newest_event_id}, "
            f"and {there.host} ({there.database}) had already replicated event {there.newest_event_id}. Nothing was "
            f"changed"
        )


def decide(
    file: HistoryFacts | None, there: LeaseRecord, newest: ReplicaPrefix | None, *, us: str, is_certain: bool
) -> Step:
    """How to go on.

    Args:
        newest: the prefix with the newest state.
        is_certain: nothing under that prefix goes beyond the file.
    """
    if file is None:
        return Step.RESTORE if newest else Step.FIRST
    is_ours = there.current.writer == us and there.current.epoch in (file.epoch, None)
    if newest is None:  # nothing to lose or to mix with
        return Step.CONTINUE if is_ours and not there.has_full_copy else Step.BEGIN
    if newest != there.current:  # a prefix was named, and has no files yet
        return Step.CONTINUE if is_ours else Step.COMPARE
    return Step.CONTINUE if is_ours and is_certain else Step.COMPARE


async def prepare_replication(
    database: Path,
    url: str,
    lease: Lease,
    environment: Mapping[str, str],
    *,
    limit_s: float = RESTORE_LIMIT_S,
    may_restore: bool = True,
    keep_file: bool = False,
    run_out: ReplicaObject | None = None,
    warm_copy: WarmCopy | None = None,
) -> Ready:
    """Take the lease, and bring the file and the prefix to replicate it to into agreement. A failure gives it back.

    A restore may take longer than the lease lasts, so the lease is renewed meanwhile.

    Args:
        run_out: as for :meth:`infra.litestream.lease.Lease.take`.
        warm_copy: asked first for the file that a restore would make.

    Raises:
        LeaseHeld, LeaseLost, FileRefused, ReplicaRefused, StoreUnreachable
    """
    file = None if is_missing(database) else read_facts(database)
    us = lease.owner.id
    there = await lease.take(
        lambda there: check_file(file, there, us=us) if file and not keep_file else None, run_out=run_out
    )
    try:
        async with lease.kept():
            return await _Start(database, url, lease, environment, limit_s, warm_copy).go(
                file, there, may_restore, keep_file
            )
    except BaseException:
        with contextlib.suppress(PostroomError):
            await lease.release()
        raise


class _Start:
    """One start, with the lease in hand."""

    def __init__(
        self,
        database: Path,
        url: str,
        lease: Lease,
        environment: Mapping[str, str],
        limit_s: float,
        warm_copy: WarmCopy | None,
    ) -> None:
        self._database = database
        self._url = url
        self._lease = lease
        self._environment = environment
        self._limit_s = limit_s
        self._warm_copy = warm_copy

    async def go(self, file: HistoryFacts | None, there: LeaseRecord, may_restore: bool, keep_file: bool) -> Ready:
        sent = local_state.newest_txid(self._database)
        survey = await self._lease.ask_store(lambda store: _survey(store, there, sent))
        newest, us = survey.newest, self._lease.owner.id
        step = decide(file, there, newest, us=us, is_certain=survey.is_certain)
        if file is not None and keep_file:
            step = Step.BEGIN
        elif step is Step.COMPARE and survey.is_emptied and there.current.writer == us:
            step, newest = Step.BEGIN, None  # the bucket was emptied; the file is all there is
        if step is Step.COMPARE and newest is not None and file is not None:
            await self._compare(file, newest)
            step = Step.BEGIN
        if step is Step.CONTINUE and (self._lease.may_another_write or not local_state.is_trusted(self._database)):
            return await self._again()
        if step is Step.CONTINUE:
            if newest != there.current:
                local_state.remove(self._database)
            return Ready(prefix_url(self._url, there.current.path), step)
        if step is Step.RESTORE and newest is not None:
            if not may_restore:
                raise FileRefused(f"{self._database} is missing: run `python -m infra.restore` before anything else")
            return await self._restore(newest)
        ready = await self._begin(step, there, newest)
        return replace(ready, is_started_over=step is Step.BEGIN and newest is None and sent is not None)

    async def _restore(self, newest: ReplicaPrefix) -> Ready:
        fresh = _beside(self._database, ".restoring")
        source = prefix_url(self._url, newest.path)
        txid = await self._warm_copy(newest, fresh) if self._warm_copy else None
        if txid is None:
            txid = await restore(source, fresh, self._environment, self._limit_s)
        if txid is None:
            raise ReplicaRefused(
                f"{self._database.name} is missing and can't be restored from {source}: there are files, but the "
                f"first ones are missing. Nothing was changed, and nothing was started empty"
            )
        missing = events_missing(read_restored_facts(fresh, source), self._lease.record)
        prefix = self._new_prefix()
        write_epoch(fresh, prefix.path)
        await self._lease.begin_prefix(prefix, newest)
        # Leftovers of the lost file would be applied to the restored one, which has another history.
        remove(self._database)
        fresh.replace(self._database)
        return Ready(prefix_url(self._url, prefix.path), Step.RESTORE, txid, events_missing=missing)

    async def _compare(self, file: HistoryFacts, newest: ReplicaPrefix) -> None:
        """Restore beside the file, and refuse the file if the replica has something that it lacks."""
        beside = _beside(self._database, ".comparing")
        try:
            source = prefix_url(self._url, newest.path)
            if await restore(source, beside, self._environment, self._limit_s) is None:
                raise ReplicaRefused(
                    f"{source} has files, but the first ones are missing. So it is unknown whether "
                    f"{self._database} is newer. Nothing was changed"
                )
            replicated = read_restored_facts(beside, source)
        finally:
            remove(beside)
        if replicated.epoch != file.epoch or replicated.newest_event_id > file.newest_event_id:
            raise FileRefused(
                f"{self._database} is not the newest state: it is of epoch {file.epoch} up to event "
                f"{file.newest_event_id}, the replica of epoch {replicated.epoch} up to event "
                f"{replicated.newest_event_id}. Nothing was changed"
            )

    async def _again(self) -> Ready:
        await self._lease.begin_prefix_of_same_epoch()
        local_state.remove(self._database)  # not before: it is the proof that the file is the newest
        return Ready(prefix_url(self._url, self._lease.record.current.path), Step.AGAIN)

    async def _begin(self, step: Step, there: LeaseRecord, newest: ReplicaPrefix | None) -> Ready:
        """A new prefix: for a database that is still to be made, or for the file that is there."""
        prefix = self._new_prefix()
        if step is Step.FIRST:
            remove(self._database)
            prefix = replace(prefix, epoch=None)  # the database will name its epoch
            is_ours = there.current.writer == prefix.writer and not self._lease.may_another_write
            if is_ours and not there.has_full_copy:
                return Ready(prefix_url(self._url, there.current.path), step)
        else:
            local_state.remove(self._database)
        await self._lease.begin_prefix(prefix, newest)
        if step is Step.BEGIN:
            write_epoch(self._database, prefix.path)
        return Ready(prefix_url(self._url, prefix.path), step)

    def _new_prefix(self) -> ReplicaPrefix:
        epoch = ids.new("epoch")
        return ReplicaPrefix(epoch, epoch, self._lease.owner.id, clock.machine_ms())


@dataclass(frozen=True, slots=True)
class _Survey:
    """What the bucket has.

    Args:
        newest: the prefix with the newest state, if any.
        is_certain: nothing under it goes beyond what was sent from here.
        is_emptied: its files are gone.
    """

    newest: ReplicaPrefix | None
    is_certain: bool = False
    is_emptied: bool = False


def _survey(store: ObjectStore, there: LeaseRecord, sent: str | None) -> _Survey:
    """Look at the bucket; *sent* is the newest commit that Litestream took from here."""
    newest = lease_record.newest_prefix(store, there)
    if newest is None:
        return _Survey(None)
    if not lease_record.has_files(store, newest):
        return _Survey(newest, is_emptied=True)
    files = newest.key(store.newest_ltx_files)
    is_certain = sent is not None and store.first(files, after=f"{files}{sent}-{sent}.ltx") is None
    return _Survey(newest, is_certain=is_certain)


def _beside(database: Path, suffix: str) -> Path:
    return database.with_name(database.name + suffix)
