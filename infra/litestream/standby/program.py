"""``python -m infra.standby``: one host of a pair, whichever of the two has the lease.

Both hosts run the same. The one that gets the lease restores or goes on, lets its functions (``infra.runner NAME
--standby``) open the database, and replicates as ``infra.replicate`` does. The other one keeps a warm copy and looks at
the lease. When the lease has run out or was given back, it takes it, and its copy becomes the database.

A database file that another host has gone on without ends the start; ``--set-aside`` moves it away and keeps it.

Ends with Litestream's own code after SIGTERM or SIGINT; 65 the file or the replica is refused; 69 the bucket does not
answer, or the file can't be opened; 73 another host has taken the lease, or a process of this host has the file; 78 the
environment is wrong.
"""

import argparse
import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import apsw

from infra.litestream.lease import Lease, LeaseHeld, LeaseLost, describe
from infra.litestream.prepare import Ready, prepare_replication
from infra.litestream.replica_settings import follow_ms_from, lease_ms_from, replica_url, setting
from infra.litestream.replicate import check_settings, keep_replicating, signalled
from infra.litestream.restore import STORE_AWAY, exit_code, lock_replication, own_lease
from infra.litestream.restored_files import FileRefused, is_missing
from infra.litestream.standby.copies import WarmCopies
from infra.litestream.standby.decisions import FollowerProgress
from infra.litestream.standby.head_start import HeadStart, clear_unconfirmed
from infra.litestream.standby.lease_watch import LeaseWatch, NextStep, next_step
from infra.litestream.standby.set_aside import set_aside
from infra.litestream.standby.status import StandbyFacts, StatusServer, listen
from infra.litestream.supervisor import Fenced
from infra.serving import serving_lock
from infra.watchdog import Watchdog
from shared.core import logs
from shared.core.errors import ConfigInvalid, PostroomError
from shared.db.replica import sync_permit
from shared.db.replica.lease_record import NAME
from shared.db.replica.litestream_program import environment_for

LEAST_LEASE_MS = 5000
_HEAD_START_PAUSE_S = 60.0  # after one that was in vain: each copies the whole database to the bucket
_AGAIN_S = 0.5  # after the bucket did not answer

log = logs.get()

_LEVELS = {
    "standby.following": "info",
    "standby.handed_over": "info",
    "standby.not_following": "warning",  # another follower begins after a pause
    "standby.follower_lost": "error",  # another one restores again
    "standby.restoring": "warning",  # there is no warm copy of what is to be restored
}


def log_copy_event(event: str, **facts: Any) -> None:
    """Log one event of the copies at its level."""
    getattr(log, _LEVELS[event])(event, **facts)


class PairedHost:
    """One host of a pair.

    Args:
        may_set_aside: a file that another host has gone on without is moved away, and not refused.

    Attributes:
        watch: what was seen of the lease.
        running: a Litestream that has its full copy, or is making it.
    """

    def __init__(self, database: Path, url: str, lease: Lease, *, may_set_aside: bool) -> None:
        self._database = database
        self._url = url
        self._lease = lease
        self._may_set_aside = may_set_aside
        self.watch = LeaseWatch()
        self._part, self._part_since_s = "starting", sync_permit.now_s()
        self._is_cleared = False  # of a clone that a crash has left
        self._head: tuple[HeadStart, asyncio.Task[bool]] | None = None
        self._head_after_s = 0.0
        self.running: asyncio.subprocess.Process | None = None
        self.copies = WarmCopies(
            url,
            lease.store,
            database.with_name(f"{database.name}.standby"),
            os.environ,
            log_copy_event,
            on_line=lambda line: log.debug("standby.litestream", line=line),
        )

    def facts(self) -> StandbyFacts:
        """What the host says of itself."""
        kept = self.copies.kept
        return StandbyFacts(
            part=self._part,
            now_s=sync_permit.now_s(),
            part_since_s=self._part_since_s,
            following=kept.url if kept else None,
            is_usable=self.copies.is_usable,
            following_since_s=kept.since_s if kept else None,
            progress=kept.progress if kept else FollowerProgress(),
            holder=describe(self.watch.record) if self.watch.record else None,
            lease_seen_s=self.watch.since_s if self.watch.looks else None,
            problem=self.copies.problem,
            stuck=self.copies.stuck,
        )

    async def take_over(self, ended: "asyncio.Future[None]") -> Ready | None:
        """Wait for the lease, take it, and make the database ready; None when *ended* comes before.

        Raises:
            FileRefused, ReplicaRefused
        """
        try:
            while not ended.done():
                ready = await self._look_and_act()
                if ready is not None:
                    self._play("active")
                    return ready
                await asyncio.wait([ended], timeout=self.watch.pause_s(sync_permit.now_s()))
        finally:
            await self._abandon_head()
            await self.copies.close()
        return None

    async def _look_and_act(self) -> Ready | None:
        try:
            found = await self._lease.ask_store(lambda store: store.get(NAME))
            self.watch = self.watch.saw(found, sync_permit.now_s())
            self.copies.problem = None
            self._clear()
            has_file = self._head is None and not is_missing(self._database)
            step = next_step(self.watch, self._lease.owner, sync_permit.now_s(), has_file=has_file)
            if step is NextStep.TAKE:
                return await self._take()
        except STORE_AWAY as error:
            self._note_problem(str(error))
            await asyncio.sleep(_AGAIN_S)
            return None
        if step is NextStep.WAIT:
            self._wait_for_own_lease()
            return None
        if step is NextStep.SET_ASIDE:
            self._leave_file()
        self._follow()
        await self.mind_head_start(sync_permit.now_s())
        return None

    def _clear(self) -> None:
        if not self._is_cleared and clear_unconfirmed(self._database, self.watch.record):
            log.info("standby.cleared", file=str(self._database))
        self._is_cleared = True

    async def mind_head_start(self, now_s: float) -> None:
        """Begin the full copy when the lease is overdue; take it back when the lease was renewed after all."""
        if not self.watch.is_overdue(self._lease.owner, now_s):
            if self._head is not None:
                log.info("standby.head_start_ended", reason="the lease was renewed")
                self._head_after_s = now_s + _HEAD_START_PAUSE_S
            await self._abandon_head()
        elif self._head is None and self.copies.kept is not None and now_s >= self._head_after_s:
            head = HeadStart(
                self._database, self._url, Path(setting("POSTROOM_LITESTREAM_SOCKET")), self._lease, self.copies.kept
            )
            self._head = head, asyncio.create_task(head.begin(environment_for(os.environ)))
            log.info("standby.head_start", replica=head.prefix.path)

    async def _abandon_head(self) -> None:
        if self._head is None:
            return
        (head, begun), self._head = self._head, None
        await asyncio.gather(begun, return_exceptions=True)
        await head.abandon()

    async def _confirm_head(self) -> Ready | None:
        """Go on from the head start, if its clone has everything; the lease may be ours afterwards in either case."""
        if self._head is None:
            return None
        head, begun = self._head
        try:
            if await begun and (ready := await head.confirm(self.watch.found)) is not None:
                self.running, self._head = head.process, None
                return ready
        except LeaseHeld:  # it was renewed, or another host was quicker
            pass
        except STORE_AWAY:
            raise
        except (PostroomError, OSError, apsw.Error) as error:  # the disk is full, say: without a head start then
            log.warning("standby.head_start_ended", reason=str(error))
        await self._abandon_head()
        return None

    async def _take(self) -> Ready | None:
        began_s = time.monotonic()
        try:
            ready = await self._confirm_head() or await prepare_replication(
                self._database,
                self._url,
                self._lease,
                os.environ,
                run_out=self.watch.found,
                warm_copy=self.copies.hand_over,
            )
        except (LeaseHeld, LeaseLost):  # it was renewed, or another host was quicker, or took it while we prepared
            return None
        except FileRefused:
            if not self._may_set_aside:
                raise
            self._set_aside()
            return None
        seconds = round(time.monotonic() - began_s, 3)
        log.info(
            "standby.took_over",
            step=ready.step.name.lower(),
            txid=ready.txid,
            seconds=seconds,
            had_head_start=self.running is not None,
            events_missing=ready.events_missing,
        )
        return ready

    def _wait_for_own_lease(self) -> None:
        if self.watch.looks == 1:
            left_s = self.watch.runs_out_s - sync_permit.now_s()
            log.warning("standby.own_lease", file=str(self._database), seconds=round(left_s, 1))

    def _leave_file(self) -> None:
        if not self._may_set_aside:
            holder = describe(self.watch.record) if self.watch.record else "another host"
            raise FileRefused(
                f"{self._database} is there, and the replica's lease is with {holder}, which does not know what this "
                f"file has had since. A standby begins without a file. Nothing was changed"
            )
        self._set_aside()

    def _set_aside(self) -> None:
        log.warning("standby.set_aside", file=str(self._database), to=str(set_aside(self._database)))

    def _follow(self) -> None:
        if self._part != "standby":
            self._play("standby")
        self.copies.record = self.watch.record
        self.copies.start()

    def _play(self, part: str) -> None:
        self._part, self._part_since_s = part, sync_permit.now_s()
        holder = describe(self.watch.record) if self.watch.record and part == "standby" else None
        log.info(f"standby.{part}", holder=holder)

    def _note_problem(self, reason: str) -> None:
        if self.copies.problem is None:
            log.error("standby.waiting", reason=reason)
        self.copies.problem = reason


async def run(options: argparse.Namespace) -> int:
    """Run the host until a signal comes; the exit code.

    Raises:
        ConfigInvalid, FileRefused, ReplicaRefused, Fenced
    """
    url, database = replica_url(), Path(setting("POSTROOM_DB"))
    check_settings()
    follow_ms_from(os.environ)
    if lease_ms_from(os.environ) < LEAST_LEASE_MS:
        raise ConfigInvalid(
            "POSTROOM_REPLICA_LEASE: at least 5s for a pair of hosts; a slow bucket takes 4 s for a request, and with "
            "less the standby would take the lease from a host that works"
        )
    ended = signalled()
    lock = lock_replication(database)
    lease = own_lease(database, url)
    host = PairedHost(database, url, lease, may_set_aside=options.set_aside)
    async with _status(host, options), Watchdog(os.environ).kept():
        ready = await host.take_over(ended)
        if ready is None:
            log.info("standby.stopped")
            return 0
        serving = serving_lock(database)
        try:
            return await keep_replicating(database, url, lease, ready, ended, serving.acquire, host.running)
        finally:
            serving.release()
            lock.release()


@contextlib.asynccontextmanager
async def _status(host: PairedHost, options: argparse.Namespace) -> AsyncIterator[None]:
    if options.port is None:
        yield
        return
    sock = listen(options.host, options.port)
    log.info("standby.status", host=options.host, port=sock.getsockname()[1])
    server = StatusServer(host.facts)
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m infra.standby")
    parser.add_argument(
        "--set-aside", action="store_true", help="move away a file that another host has continued without; it is kept"
    )
    parser.add_argument("--port", type=int, help="answer GET /healthz there; 0 picks a free port and logs it")
    parser.add_argument("--host", default="127.0.0.1", help="the address of --port (default: %(default)s)")
    return parser.parse_args(arguments)


def main() -> int:
    """The program; see the module's docstring."""
    logs.configure("standby")
    options = parse()
    os.umask(0o077)
    try:
        return asyncio.run(run(options))
    except Fenced as error:
        return exit_code(error)
    except PostroomError as error:
        advice = {}
        if isinstance(error, FileRefused):
            advice["to_go_on_as_standby"] = "python -m infra.standby --set-aside: it moves the file away and keeps it"
            advice["to_go_on_from_the_file"] = "stop the other host, then python -m infra.restore --keep-file"
        log.error("standby.refused", reason=str(error), **advice)
        return exit_code(error)
    except OSError as error:
        log.error("standby.refused", reason=f"{error.strerror}: {error.filename or ''}")
        return os.EX_UNAVAILABLE
    except apsw.Error as error:
        log.error("standby.refused", reason=f"{os.environ.get('POSTROOM_DB')}: {error}")
        return os.EX_UNAVAILABLE
