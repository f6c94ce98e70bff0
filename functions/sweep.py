"""``sweep``: every minute, rescue work whose process is gone, expire what is over, and prune what is old.

Every few minutes, it also checks whether each platform sends us our bot's events, and sends alerts about problems.
When an approval expires, its card and a message to the requester say so. An approval without known approvers is shown
as soon as one can be reached.

Each batch holds the write lock for a few milliseconds, and the chores take turns, so that nothing waits for a long
chore. A chore that fails is logged and counted, and does not stop the others. ``POST /tick``: 200 with counts, 500
if a chore failed. Safe to run twice, or late: it looks only at the rows.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import apsw
import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shared.channels import registry
from shared.conversation.access import permission_requests, requests
from shared.conversation.access.registration_looks import RegistrationLooks
from shared.conversation.alerts.alert_looks import AlertLooks
from shared.conversation.inbound import undecided
from shared.core import logs
from shared.core.settings import Settings
from shared.core.time import clock
from shared.db.access import albums, approvals, dropped, pairings, questions, rates, tool_calls
from shared.db.engine import meta, statistics
from shared.db.engine.connection import open_connection
from shared.db.engine.read_ahead import ReadAhead
from shared.db.engine.write_ahead_log import WriteAheadLog
from shared.db.platforms import call_holds, drafts, unknown_sends
from shared.db.queue import (
    chains,
    conversations,
    event_keys,
    events,
    fetched_responses,
    messages,
    replays,
    responses,
    spoken,
)
from shared.db.queue.schedules import missed_runs, schedule_runs
from shared.db.roster import accounts
from shared.db.spending import usage
from shared.db.views.history_index import HistoryIndexer
from shared.db.views.monitoring import event_totals
from shared.queue import deliveries, endings, forgetting, session_reset, turns, waits
from shared.queue.delivery_verdicts import DeliveryPolicy
from shared.queue.turns import RetryPolicy
from shared.runtime import framework
from shared.runtime.app import AppResponse, function_app, tick_route
from shared.runtime.batch_size import BatchSize, Chore, Steps, repeated, walked
from shared.runtime.past import held
from shared.runtime.service import FunctionService, LazyService
from shared.turns.run.files import old_files

log = logs.get()

T = TypeVar("T")

_SMALL_BATCH = 25  # at most, of rows that take a dozen statements each
_COUNTED_BATCH = 2000  # at most, of events that are added up
_PAUSE_S = 0.005  # between batches, so that other writers get the lock
_LOG_PAUSE_S = 0.1  # while the log is long: a search or a comparison reads, or Litestream is behind
_LOG_BEGINS_S = 0.02  # for another writer to come, if there are any
_MINUTE_MS = 60_000
_SENT_KEPT_MS = 7 * 24 * 60 * _MINUTE_MS
_WAKING = (  # they leave work to others
    "expired_approvals",
    "ended_prompts",
    "shown_approvals",
    "settled_waits",
    "bounded_waits",
)
_LONGEST_S = 40.0  # for all batches of one sweep, less than the runner's limit; the next sweep continues

_LONG = ("message", "content", "files")
_OF_MESSAGES = ReadAhead("messages", _LONG, (("message_id",), ("channel", "event_key", "agent")))
_OF_RESPONSES = ReadAhead("responses", _LONG)


class Swept(msgspec.Struct):
    """The counts of one sweep, the chores that failed, and the chores left for the next sweep for lack of time.

    ``longest_s``: of one transaction or of the end of a checkpoint, from the moment at which it had the write lock.
    """

    counts: dict[str, int] = msgspec.field(default_factory=dict)
    failed: list[str] = msgspec.field(default_factory=list)
    left: list[str] = msgspec.field(default_factory=list)
    longest_s: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """For the answer to the tick."""
        return {**self._done(), "longest_batch_ms": round(self.longest_s * 1000, 1)}

    def news(self) -> dict[str, Any]:
        """The same for the log, without what is zero or empty, or in every sweep of a system that works."""
        return {name: found for name, found in self._done().items() if found and name != "counted_events"}

    def _done(self) -> dict[str, Any]:
        return {**self.counts, "failed": self.failed, "left": self.left}


class Sweep(FunctionService):
    """Runs sweeps, one at a time."""

    def __init__(self, settings: Settings, *, longest_s: float = _LONGEST_S) -> None:
        super().__init__(settings)
        self.longest_s = longest_s
        self.log = WriteAheadLog(settings.db)
        self.index = HistoryIndexer(settings.db)
        self.looks = RegistrationLooks(settings, self.writer)
        self.alerts = AlertLooks(settings, self.writer)
        self.running = asyncio.Lock()
        self.sizes: dict[str, BatchSize] = {}  # learned; by the chore
        self.reader: apsw.Connection | None = None  # opened in another thread, at its first need
        self.in_thread: asyncio.Future[Any] | None = None  # may go on after its sweep was cut off

    async def once(self, *, now_ms: int) -> Swept:
        """One sweep. Alerts come first, because the other work may take so long that the sweep is cut off."""
        if await self.alerts.look(now_ms=now_ms):
            self.kick("deliver", "api")
        swept, _ = await asyncio.gather(self._work(now_ms), self.alerts.post(now_ms=now_ms))
        return swept

    async def _work(self, now_ms: int) -> Swept:
        swept, until_s = Swept(), clock.monotonic_s() + self.longest_s
        await self._rescue(swept, now_ms, until_s)
        await self._try(swept, "heartbeat", lambda conn: meta.put(conn, "heartbeat_at", str(now_ms)))
        await self._bound_waits(swept, now_ms, until_s)
        await self._run_chores(swept, self._chores(now_ms), until_s)
        await self._work_in_thread(swept, now_ms)
        if any(swept.counts[each] for each in _WAKING):
            self.kick("dispatch", "deliver")
        return swept

    async def _work_in_thread(self, swept: Swept, now_ms: int) -> None:
        """Delete old files, and index what was said. What an agent sent is kept with its response, a week at least."""
        until_ms = now_ms - max(self.settings.retention_ms, _SENT_KEPT_MS)
        work = {
            "deleted_files": lambda: old_files.delete_sent(self._reader(), self.settings.files, older_than_ms=until_ms),
            "deleted_of_boxes": lambda: old_files.delete_old(self._reader(), self.settings, now_ms=now_ms),
            "indexed_lines": lambda: self.index.work(self._reader()),
        }
        for name, do in work.items():
            await self._count_in_thread(swept, name, do)

    async def _bound_waits(self, swept: Swept, now_ms: int, until_s: float) -> None:
        """After the clock was set back, let no row wait longer because of that. Usually nothing is written."""
        name, lease_ms = "bounded_waits", self.settings.lease_ms
        count = partial(waits.count, lease_ms=lease_ms, now_ms=now_ms)
        await self._count_in_thread(swept, name, lambda: count(self._reader()))
        if swept.counts[name]:
            bound = partial(waits.bound, lease_ms=lease_ms, now_ms=now_ms)
            await self._run_chores(swept, {name: repeated(bound)}, until_s)

    async def _count_in_thread(self, swept: Swept, name: str, do: Callable[[], int]) -> None:
        swept.counts[name] = 0
        try:
            swept.counts[name] = await self._in_thread(do)
        except (OSError, apsw.Error):
            log.exception("sweep.chore_failed", chore=name)
            swept.failed.append(name)

    def _reader(self) -> apsw.Connection:
        if self.reader is None:
            self.reader = open_connection(self.settings.db, readonly=True)
        return self.reader

    async def _rescue(self, swept: Swept, now_ms: int, until_s: float) -> None:
        """Fail the turns and sends whose lease ran out, so that they are tried again."""
        chores = {
            "rescued_turns": repeated(partial(self._rescue_turns, now_ms=now_ms), most=_SMALL_BATCH),
            "rescued_sends": repeated(partial(self._rescue_sends, now_ms=now_ms), most=_SMALL_BATCH),
        }
        swept.counts |= dict.fromkeys(chores, 0)
        places: dict[str, Any] = dict.fromkeys(chores)
        while places and clock.monotonic_s() < until_s:
            await self._run_round(swept, chores, places)
        swept.left += places
        if any(swept.counts[name] for name in chores):
            self.kick("dispatch", "deliver")

    def _rescue_turns(self, conn: apsw.Connection, *, now_ms: int, limit: int) -> int:
        return len(turns.rescue(conn, RetryPolicy.of(self.settings), now_ms=now_ms, limit=limit))

    def _rescue_sends(self, conn: apsw.Connection, *, now_ms: int, limit: int) -> int:
        policy = DeliveryPolicy.of(self.settings)
        count = 0
        for name in accounts.served(conn, registry.PLATFORMS):
            count += deliveries.rescue(conn, channel=name, policy=policy, now_ms=now_ms, limit=limit - count)
        return count

    def _chores(self, now_ms: int) -> dict[str, Chore]:
        old_ms = now_ms - self.settings.retention_ms
        sent_ms = min(old_ms, now_ms - endings.LONGEST_WAIT_MS)  # else a command that was answered looks unanswered
        past_ms = now_ms - self.settings.history_retention_ms if self.settings.history_retention_ms else 0
        chores = {
            "analysed_tables": Chore(_analyse, most=1),
            "expired_questions": repeated(partial(questions.expire, now_ms=now_ms)),
            "expired_approvals": repeated(partial(undecided.expire, now_ms=now_ms), most=_SMALL_BATCH),
            "ended_prompts": Chore(partial(_end_prompts, now_ms=now_ms), most=1),
            "expired_pairings": repeated(partial(pairings.expire, now_ms=now_ms)),
            "shown_approvals": walked(partial(requests.show_pending, now_ms=now_ms), most=_SMALL_BATCH),
            "settled_waits": Chore(partial(_settle_waits, now_ms=now_ms), most=1),
            "closed_conversations": repeated(
                partial(
                    conversations.close_idle, idle_since_ms=now_ms - self.settings.conversation_idle_ms, now_ms=now_ms
                )
            ),
            "closed_sessions": repeated(
                partial(session_reset.close_ended, idle_since_ms=old_ms, now_ms=now_ms), most=_SMALL_BATCH
            ),
            "forgotten_lines": Chore(forgetting.forget_older),
            "forgotten_context": repeated(partial(replays.forget, now_ms=now_ms)),
            "pruned_messages": walked(
                partial(messages.prune, older_than_ms=old_ms, forgotten_ms=now_ms - event_keys.KEPT_MS),
                read_ahead=_OF_MESSAGES,
            ),
            "pruned_responses": walked(partial(responses.prune, older_than_ms=sent_ms), read_ahead=_OF_RESPONSES),
            "given_up_responses": walked(
                partial(
                    fetched_responses.give_up,
                    adapters=registry.PLATFORMS,
                    older_than_ms=old_ms,
                    forget_older_than_ms=past_ms,
                    now_ms=now_ms,
                )
            ),
            "pruned_event_keys": repeated(partial(event_keys.prune, older_than_ms=now_ms - event_keys.KEPT_MS)),
            "pruned_albums": repeated(partial(albums.prune, older_than_ms=now_ms - event_keys.KEPT_MS)),
            "pruned_drafts": repeated(partial(drafts.prune, older_than_ms=old_ms)),
            "pruned_spoken": repeated(partial(spoken.prune, older_than_ms=old_ms)),
            "pruned_unknown_sends": repeated(unknown_sends.prune),
            "pruned_call_holds": repeated(partial(call_holds.prune, now_ms=now_ms)),
            "pruned_rates": repeated(partial(rates.prune, older_than_ms=now_ms - _MINUTE_MS)),
            "pruned_tool_calls": repeated(partial(tool_calls.prune, older_than_ms=old_ms)),
            "counted_events": repeated(event_totals.add_up, most=_COUNTED_BATCH),
            "pruned_chains": repeated(partial(chains.prune, older_than_ms=now_ms - chains.KEPT_MS)),
        }
        if past_ms:
            chores |= {
                "pruned_events": repeated(partial(events.prune, older_than_ms=past_ms)),
                "pruned_runs": repeated(partial(schedule_runs.prune, older_than_ms=past_ms)),
                "pruned_missed_runs": repeated(partial(missed_runs.prune, older_than_ms=past_ms)),
                "pruned_refusals": repeated(
                    partial(dropped.prune, older_than_ms=min(past_ms, now_ms - event_keys.KEPT_MS))
                ),
                "pruned_approvals": repeated(partial(approvals.prune, older_than_ms=past_ms)),
                "pruned_usage": repeated(partial(usage.prune, older_than_ms=min(past_ms, now_ms - usage.KEPT_MS))),
                "pruned_pairings": repeated(partial(pairings.prune, older_than_ms=past_ms)),
                "pruned_conversations": Chore(partial(_prune_conversations, older_than_ms=past_ms)),
            }
        return chores

    async def _run_chores(self, swept: Swept, chores: dict[str, Chore], until_s: float) -> None:
        """Run one batch of each chore, then another of each that is not done, until all are done or the time is up."""
        swept.counts |= dict.fromkeys(chores, 0)
        places: dict[str, Any] = dict.fromkeys(chores)
        for size in self.sizes.values():
            size.begin_again()
        while places and clock.monotonic_s() < until_s:
            await self._run_round(swept, chores, places)
            await self._relieve_log(swept, until_s=until_s if places else 0.0)
        swept.left += places

    async def _run_round(self, swept: Swept, chores: dict[str, Chore], places: dict[str, Any]) -> None:
        """Run one batch of each chore that has a place in *places*, and move or remove its place."""
        for name, place in list(places.items()):
            places[name] = await self._run_batch(swept, name, chores[name], place)
            if places[name] is None:
                del places[name]
            else:
                await asyncio.sleep(_PAUSE_S)

    async def _relieve_log(self, swept: Swept, *, until_s: float) -> None:
        """Shorten the log. If other processes keep it long, wait for them, at most until *until_s*."""
        while await self._relieve_once(swept) and clock.monotonic_s() < until_s:  # noqa: ASYNC110 - other processes
            await asyncio.sleep(_LOG_PAUSE_S)
        if until_s and self.log.begins_again:  # the next commit waits for the disk: better another writer's than ours
            await asyncio.sleep(_LOG_BEGINS_S)

    async def _relieve_once(self, swept: Swept) -> bool:
        is_strained = await self._in_thread(self.log.relieve)
        swept.longest_s = max(swept.longest_s, self.log.held.seconds)
        return is_strained

    async def _run_batch(self, swept: Swept, name: str, chore: Chore, place: Any) -> Any:
        """Run one batch; the next place, or None when the chore is done."""
        size = self.sizes.setdefault(name, BatchSize(chore.most))
        steps = Steps(chore.batch, place, size.rows)
        if (read := chore.read_ahead) is not None:
            await self._in_thread(lambda: self._read_ahead(name, lambda conn: read(conn, place, size.rows)))
        count, after = await self._try(swept, name, steps) or (0, None)
        size.learn(self.writer.held.seconds, rows=steps.rows, is_full=after is not None)
        swept.counts[name] += count
        return after

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Do *work* in another thread, after that of a sweep that was cut off: both use the same connections."""
        await self._thread_is_free()
        self.in_thread = doing = asyncio.ensure_future(asyncio.to_thread(work))
        return await asyncio.shield(doing)

    async def _thread_is_free(self) -> None:
        if self.in_thread is not None:
            await asyncio.wait([self.in_thread])

    def _read_ahead(self, name: str, read: Callable[[apsw.Connection], None]) -> None:
        """Read what the batch will change, so that it does not read from the disk under the write lock."""
        try:
            read(self._reader())
        except apsw.Error:  # the batch then reads for itself, and its own error is counted
            log.exception("sweep.read_ahead_failed", chore=name)

    async def _try(self, swept: Swept, name: str, work: Callable[[apsw.Connection], T]) -> T | None:
        """Run *work* in a transaction; None if it failed."""
        try:
            return await self.writer.run(work, durable=False)
        except Exception:  # the batch boundary: a failing chore must not stop the others
            log.exception("sweep.chore_failed", chore=name)
            swept.failed.append(name)
            return None
        finally:
            swept.longest_s = max(swept.longest_s, self.writer.held.seconds)

    async def close(self) -> None:
        await self._thread_is_free()
        self.log.close()
        if self.reader is not None:
            self.reader.close()
        await self.looks.close()
        await self.alerts.close()
        await super().close()


def _prune_conversations(conn: apsw.Connection, after: Any, limit: int, *, older_than_ms: int) -> tuple[int, Any]:
    count, last = conversations.prune(conn, after=after or "", older_than_ms=older_than_ms, limit=limit)
    return count, last or None


def _analyse(conn: apsw.Connection, tables: Any, _: int) -> tuple[int, Any]:
    """Refresh the planner's statistics, one table in a transaction."""
    if tables is None:
        tables = statistics.stale(conn)
    if tables:
        statistics.analyse(conn, tables[0])
    return len(tables[:1]), tables[1:] or None


def _settle_waits(conn: apsw.Connection, _: Any, __: int, *, now_ms: int) -> tuple[int, Any]:
    """End the display of commands whose platform has shown for too long that an answer is awaited; all in one batch."""
    return endings.look(conn, now_ms=now_ms), None


def _end_prompts(conn: apsw.Connection, _: Any, __: int, *, now_ms: int) -> tuple[int, Any]:
    """End the questions of programs whose turns are over; all in one batch."""
    return permission_requests.end_lost(conn, now_ms=now_ms), None


_service = LazyService(Sweep)
lifespan = _service.lifespan


async def _tick(service: Sweep) -> Response:
    if service.past is not None:
        return held(service.past)
    if service.running.locked():
        return JSONResponse({"skipped": "the last sweep still runs"}, status_code=202)
    async with service.running:
        swept = await service.once(now_ms=clock.now_ms())
        if await service.looks.look(now_ms=clock.now_ms()):
            service.kick("deliver", "api")
    log.info("sweep.done", **swept.news())
    return JSONResponse(swept.as_dict(), status_code=500 if swept.failed else 200)


_app = function_app("sweep", [tick_route(_service, _tick)])


@framework.http
async def sweep(_: Request) -> Response:
    """The handler: ``/tick`` and ``/healthz``."""
    return AppResponse(_app)
