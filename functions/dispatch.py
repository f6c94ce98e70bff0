"""``dispatch``: claims due messages per session, runs the agent outside any transaction, and settles whole.

It works on a kick, on its tick (``POST /tick``: 202), and when something becomes due. One dispatch works on a database.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import apsw
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shared.agents import leftover_processes, prompt, registry
from shared.agents.base import Failed, Init, Result, Text, Turn, TurnMessage
from shared.core import clock, logs
from shared.core.errors import ClaimLost, PostroomError
from shared.core.settings import Settings
from shared.db.engine.connection import open_connection
from shared.db.engine.group_commit import Writer
from shared.db.queue import claims, events, messages, sessions
from shared.db.queue import ready as waiting
from shared.db.queue.claims import Claim
from shared.db.queue.message_row import Message
from shared.db.queue.ready import Ready
from shared.db.queue.sessions import Session
from shared.db.roster import agents, teams
from shared.db.roster.agents import Agent
from shared.queue import turns
from shared.queue.turns import Failure, RetryPolicy, Said
from shared.runtime import framework
from shared.runtime.app import Handled, Held, check_tick, function_app
from shared.runtime.kick import Kicker
from shared.runtime.worker import Backlog, Worker

log = logs.get()

_SETTLE_PAUSES_S = (0.1, 0.5, 2.0, 5.0)  # a full disk or a lock that lasts: the turn's work is not thrown away at once

_UNWRITTEN_PAUSE_S = 1.0
_MOST_TRIES = 300


@dataclass(slots=True)
class Unwritten:
    """A turn that has ended, and whose rows don't say so: how it failed, or that it is given back."""

    claim: Claim
    failure: Failure | None
    tries: int = 0


@dataclass(slots=True)
class Running:
    """A turn of this process. It can be interrupted between its beginning and its settlement, and not in either.

    A task that is cancelled before its beginning never gives its messages back.
    """

    claim: Claim
    batch_size: int
    is_suspect: bool = False
    task: asyncio.Task[None] | None = None
    is_interruptible: bool = False


class Dispatch:
    """What the function holds between requests: the worker loop, the writing thread, a connection to read with."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.writer = Writer(settings.db)
        self.reader = open_connection(settings.db, readonly=True)
        self.kicker = Kicker(settings.sockets)
        self.worker = Worker(
            "dispatch", db=settings.db, sockets=settings.sockets, repair=self.repair, step=self.claim_and_start
        )
        self._running: dict[int, Running] = {}  # by session
        self._backlog = Backlog(self._look)
        self._is_stopped = False
        self._unwritten: list[Unwritten] = []
        self._given_way: set[int] = set()  # urgent sessions for which a turn was interrupted, and which wait on

    async def repair(self) -> None:
        """We hold the lock, so whoever held a turn is gone: fail those turns, to be tried again."""
        now_ms = clock.now_ms()
        left = [claim.token for claim, _ in claims.running(self.reader)]
        if ended := await asyncio.to_thread(leftover_processes.end, left):
            log.warning("dispatch.remains_ended", processes=ended)

        def work(conn: apsw.Connection) -> list[Claim]:
            known = {"agents": [a.id for a in agents.every(conn)], "teams": [t.id for t in teams.every(conn)]}
            events.append(conn, "processor_start", now_ms=now_ms, data=known)
            return turns.rescue(conn, RetryPolicy.of(self.settings), now_ms=now_ms, everything=True)

        lost = await self.writer.run(work)
        if lost:
            log.warning("dispatch.rescued", turns=len(lost))
            self.kicker.kick("deliver")

    async def claim_and_start(self) -> float | None:
        """Claim what is ready, as far as there is room, and start its turns; the seconds until more becomes due."""
        await self._write_what_was_not()
        self._interrupt()
        room = self.settings.max_concurrent_turns - self.worker.running
        now_ms = clock.now_ms()
        ready = self._backlog.take(room, now_ms=now_ms)
        if ready or messages.is_unannounced(self.reader):
            by_session = {each.session_id: each for each in ready}
            for claim in await self._claimed(ready):
                taken = by_session[claim.session_id]
                running = Running(claim, self._batch_size(taken), taken.is_suspect)
                self._running[claim.session_id] = running
                running.task = self.worker.start(self.turn(running))
            await asyncio.sleep(0)  # they begin: the next look may interrupt each of them
            self.kicker.kick("api")
            if messages.is_unannounced(self.reader):
                return 0.0
        if self._unwritten:
            return _UNWRITTEN_PAUSE_S
        due = waiting.next_due(self.reader, now_ms=now_ms)
        return None if due is None else max(0.0, (due - clock.now_ms()) / 1000)

    async def _write_what_was_not(self) -> None:
        """Free the messages of turns whose end could not be written. Their leases would hold them for long.

        Whatever such a turn said is lost, and that counts as an attempt: it may be what can't be written.
        """
        unwritten, self._unwritten = self._unwritten, []
        for each in unwritten:
            try:
                if each.failure is None:
                    await self._release(each.claim)
                else:
                    await self._end(each.claim, each.failure, pauses=())
                self._backlog.forget()
            except ClaimLost:
                continue
            except Exception:  # the others go on; in the end it is the lease that frees it
                log.exception("turn.not_freed", turn=each.claim.token)
                each.tries += 1
                if each.tries < _MOST_TRIES:
                    self._unwritten.append(each)

    async def _claimed(self, ready: list[Ready]) -> list[Claim]:
        try:
            return await self.writer.run(partial(self._claim, ready=ready), durable=False)
        except asyncio.CancelledError:
            self._is_stopped = True
            raise

    def _look(self, now_ms: int) -> list[Ready]:
        held = {session: running.claim.agent for session, running in self._running.items()}
        has_suspect = any(running.is_suspect for running in self._running.values())
        return waiting.ready(self.reader, now_ms=now_ms, held=held, has_suspect=has_suspect)

    def _claim(self, conn: apsw.Connection, ready: list[Ready]) -> list[Claim]:
        if self._is_stopped:
            return []  # nobody waits for them any more: they would be held by no turn, until the lease runs out
        messages.announce(conn)
        taken = (
            claims.claim(
                conn,
                each.agent,
                each.session_id,
                token=f"turn_{secrets.token_urlsafe(6)}",
                now_ms=clock.now_ms(),  # not before: the lease must not run while we wait for the lock
                lease_ms=self.settings.lease_ms,
                limit=self._batch_size(each),
            )
            for each in ready
        )
        return [claim for claim in taken if claim is not None]

    def _batch_size(self, ready: Ready) -> int:
        return ready.batch_size or self.settings.batch_size

    def _interrupt(self) -> None:
        """End the turns that lost their messages (somebody cancelled one), or that something urgent can't wait for."""
        now_ms = clock.now_ms()
        urgent = waiting.urgent_sessions(self.reader, now_ms=now_ms)
        for session, running in self._running.items():
            if not running.is_interruptible:
                continue
            if not claims.is_held(self.reader, running.claim):
                self._end_early(running, "cancelled")
            elif session in urgent and claims.would_gain(
                self.reader, running.claim, now_ms=now_ms, limit=running.batch_size
            ):
                self._end_early(running, "urgent")
        self._given_way &= urgent.keys() - self._running.keys()
        for session, agent in urgent.items():
            if session not in self._running and session not in self._given_way:
                self._make_way(session, agent, now_ms)

    def _make_way(self, session: int, agent: str, now_ms: int) -> None:
        """If the agent is busy elsewhere, its youngest turn gives way to the urgent session; once, whatever follows."""
        mine = [running for running in self._running.values() if running.claim.agent == agent]
        known = agents.get(self.reader, agent)
        if known is None or len(mine) < known.concurrency or not all(each.is_interruptible for each in mine):
            return  # there is room, or will be at once
        lesser = [running for running in mine if not claims.has_taken_urgent(self.reader, running.claim)]
        if lesser and claims.is_due(self.reader, agent, session, now_ms=now_ms):
            self._given_way.add(session)
            self._end_early(lesser[-1], "urgent elsewhere")

    def _end_early(self, running: Running, reason: str) -> None:
        if running.task is not None:
            log.info("turn.interrupted", turn=running.claim.token, reason=reason)
            running.is_interruptible = False
            running.task.cancel()
            self._backlog.forget()  # the session is to have its turn again by its age

    async def turn(self, running: Running) -> None:
        """One turn, from claim to settlement."""
        claim = running.claim
        context = {"turn": claim.token, "agent": claim.agent, "message_id": claim.asked[0].message_id}
        this = asyncio.current_task()
        renewal = asyncio.create_task(self._renew(claim, this.cancel if this else lambda: None))
        started_ms = clock.now_ms()
        try:
            running.is_interruptible = True
            outcome = await self._run(claim)
            running.is_interruptible = False
            await self._end(claim, outcome)
        except asyncio.CancelledError:
            try:
                await asyncio.to_thread(leftover_processes.end, [claim.token])
            finally:  # also when it is cancelled once more, by a stop: nobody else would give them back
                await self._give_back(claim)
                self._backlog.forget()
            raise
        except ClaimLost as error:
            log.warning("turn.lost", reason=str(error), **context)
            return
        except Exception as error:
            failure = Failure(f"what came of it could not be written: {type(error).__name__}")
            self._unwritten.append(Unwritten(claim, failure))
            raise
        finally:
            renewal.cancel()
            # Not before: a turn that lost its lease (the machine slept) runs on until its renewal tells it.
            self._running.pop(claim.session_id, None)
        facts = {"ms": clock.now_ms() - started_ms, "batch": len(claim.batch), **context}
        if isinstance(outcome, Failure):
            log.warning("turn.failed", reason=outcome.reason, **facts)
        else:
            log.info("turn.done", **facts)

    async def _renew(self, claim: Claim, lost: Callable[[], object]) -> None:
        """Hold the lease while the turn lives; end the turn if the lease is gone."""
        while True:
            await asyncio.sleep(self.settings.lease_ms / 3000)
            until = clock.now_ms() + self.settings.lease_ms
            try:
                await self.writer.run(partial(claims.renew, claim=claim, lease_until=until), durable=False)
            except ClaimLost:
                lost()
                return
            except apsw.Error:
                log.exception("turn.renewal_failed", turn=claim.token)

    async def _run(self, claim: Claim) -> "tuple[list[Said], str | None] | Failure":
        """Run the agent; what it said and how it goes on, or why it failed."""
        try:
            agent = agents.get(self.reader, claim.agent)
            session = sessions.get(self.reader, claim.session_id)
            if agent is None or session is None:
                return Failure(f"agent {claim.agent!r} does not exist", retryable=False)
            limit_s = (agent.turn_timeout_ms or self.settings.turn_timeout_ms) / 1000
            try:
                async with asyncio.timeout(limit_s):
                    return await self._listen(claim, agent, session)
            except TimeoutError:
                await asyncio.to_thread(leftover_processes.end, [claim.token])
                return Failure(f"no result within {limit_s:g} s")
        except PostroomError as error:
            return Failure(str(error), retryable=False)
        except Exception as error:  # the batch boundary: the row remembers, the others go on
            log.exception("turn.provider_failed", turn=claim.token, agent=claim.agent)
            return Failure(f"the provider failed: {type(error).__name__}")

    async def _listen(self, claim: Claim, agent: Agent, session: Session) -> "tuple[list[Said], str | None] | Failure":
        folder = self.settings.agents_dir / (agent.folder or agent.id)
        folder.mkdir(parents=True, exist_ok=True)
        batch = tuple(_turn_message(message) for message in claim.batch)
        turn = Turn(
            agent=agent.id,
            model=agent.model,
            instructions=agent.instructions,
            config=agent.config,
            folder=folder.absolute(),
            session=session.session_id,
            continuation=session.continuation,
            prompt=prompt.build(batch, timezone=agent.timezone),
            messages=batch,
            attempt=claim.asked[0].retry_count + 1,
            token=claim.token,
        )
        said: list[Said] = []
        continuation: str | None = None
        by_id = {message.message_id: message for message in claim.asked}
        async with contextlib.aclosing(registry.get(agent.provider).run(turn)) as provider:
            async for event in provider:
                match event:
                    case Init():
                        continuation = event.continuation
                    case Text() if event.text.strip():
                        said.append(Said(event.text, by_id.get(event.answers or "", claim.asked[0])))
                    case Result():
                        if event.text and event.text.strip():
                            said.append(Said(event.text, claim.asked[0]))
                        break
                    case Failed():
                        return Failure(event.reason, event.retryable, event.wait_ms)
        if not said:
            return Failure("the agent said nothing")
        return said, continuation

    async def _end(
        self,
        claim: Claim,
        outcome: "tuple[list[Said], str | None] | Failure",
        pauses: Sequence[float] = _SETTLE_PAUSES_S,
    ) -> None:
        """Settle or fail, durably; tried again for a while if the database can't be written."""

        def work(conn: apsw.Connection) -> None:
            now_ms = clock.now_ms()
            if isinstance(outcome, Failure):
                turns.fail(conn, claim, outcome, RetryPolicy.of(self.settings), now_ms=now_ms)
            else:
                said, continuation = outcome
                turns.settle(conn, claim, said, continuation, now_ms=now_ms)

        for pause in pauses:
            try:
                await self.writer.run(work)
                break
            except apsw.Error:
                log.exception("turn.not_settled", turn=claim.token, again_in_s=pause)
                await asyncio.sleep(pause)
        else:
            await self.writer.run(work)
        self.kicker.kick("deliver")
        self.kicker.kick("api")
        if not isinstance(outcome, Failure):
            while claims.has_older_context(self.reader, claim):
                await self.writer.run(partial(claims.pass_over, claim=claim, now_ms=clock.now_ms()), durable=False)

    async def _give_back(self, claim: Claim) -> None:
        try:
            await self._release(claim)
        except Exception:
            self._unwritten.append(Unwritten(claim, None))
            raise

    async def _release(self, claim: Claim) -> None:
        with contextlib.suppress(ClaimLost):
            await self.writer.run(lambda conn: turns.release(conn, claim, now_ms=clock.now_ms()), durable=False)

    async def close(self) -> None:
        await self.worker.stop()
        self.writer.close()
        self.reader.close()
        self.kicker.close()


def _turn_message(message: Message) -> TurnMessage:
    reply = message.content.get("reply_to")
    return TurnMessage(
        message_id=message.message_id,
        kind=message.kind,
        sender=message.sender,
        text=message.message,
        at_ms=message.created_at,
        reply_to=reply.get("text") if reply else None,
        is_context=not message.trigger,
        from_agent=message.from_agent,
    )


_held = Held(lambda: Dispatch(Settings.load()), lambda service: service.worker.begin())
lifespan = _held.lifespan


async def _tick(request: Request) -> Response:
    service = _held.get()
    check_tick(request, service.settings.tick_secret)
    service.worker.begin()
    service.worker.wake()
    return JSONResponse({"running": service.worker.running}, status_code=202)


_app = function_app("dispatch", [], tick=_tick)


@framework.http
async def dispatch(_: Request) -> Response:
    """The handler: ``/tick`` and ``/healthz``."""
    return Handled(_app)
