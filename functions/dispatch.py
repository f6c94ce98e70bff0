"""``dispatch``: claims due messages per session, runs the agent outside any transaction, and settles the turn whole.

It works after a kick or a tick (``POST /tick``: 202), and when something becomes due. Only one dispatch works on a
database.
This file schedules the turns; ``shared/turns/run`` runs them and writes how they ended.
"""

import asyncio
import contextlib
from functools import partial

import apsw
from starlette.requests import Request
from starlette.responses import Response

from shared.agents import leftover_processes
from shared.agents.programs.sandboxes import Sandboxes
from shared.conversation.access import permission_requests
from shared.conversation.inbound import events as events_of_platforms
from shared.core import chance, logs
from shared.core.errors import OF_ONE_ROW
from shared.core.policy import AccessPolicy
from shared.core.settings import Settings
from shared.core.time import clock
from shared.db.access import albums
from shared.db.engine import meta
from shared.db.engine.connection import savepoint
from shared.db.engine.past import Past
from shared.db.platforms import progress_lines
from shared.db.queue import claims, events, messages, past_replays, ready_sessions, spoken
from shared.db.queue.claims import Claim
from shared.db.queue.events import EventData
from shared.db.queue.message_row import UnreadableMessage
from shared.db.queue.ready_sessions import ReadySession
from shared.db.roster import agent_pauses, agents, teams
from shared.queue import progress, series, turns
from shared.queue.platforms import pacing
from shared.queue.turns import RetryPolicy
from shared.roster.served_accounts import ServedAccounts
from shared.runtime import framework, host
from shared.runtime.app import AppResponse, function_app, tick_route
from shared.runtime.http_client import Client
from shared.runtime.service import LazyService
from shared.runtime.worker import Backlog
from shared.runtime.worker_service import WorkerService, wake
from shared.turns.gateway.model_gateway import ModelGateway
from shared.turns.mcp.app import McpApp
from shared.turns.run import program_versions
from shared.turns.run.files.channel_files import ChannelFiles
from shared.turns.run.paused_agents import PausedAgents
from shared.turns.run.settlement import UNWRITTEN_PAUSE_S, Settlement
from shared.turns.run.showing.presence import Presence
from shared.turns.run.telling import Telling
from shared.turns.run.turn_runner import RunningTurn, TurnRunner

log = logs.get()

_HOST = "dispatch_host"  # in meta: where dispatch ran last, until it ends well; see ``host.identity``
_BEGAN = "dispatch_began_at"  # in meta: when it began to run there, in ms
_REPLAY_PAUSE_S = 1.0  # between looks for a replay that waits, in a copy of the past


class Dispatch(WorkerService):
    """Schedules turns: which session runs next, and which running turn is interrupted for something urgent."""

    def __init__(self, settings: Settings, client: Client | None = None) -> None:
        super().__init__("dispatch", settings)
        self.client: Client = pacing.paced(self.outgoing(client), self)
        accounts = ServedAccounts(settings)
        self.settlement = Settlement(self)
        self.gateway = ModelGateway(
            settings.sockets,
            self.reader,
            self.writer,
            timezone=settings.timezone,
            on_notice=lambda: self.kick("deliver", "api"),
            tools=McpApp,
        )
        self.sandboxes = Sandboxes(settings.sockets / "sandboxes", self.gateway.serve)
        files = ChannelFiles(self.reader, accounts, self.client)
        presence = Presence(self, accounts, self.client, clock.now_ms)
        self.telling = Telling(self)
        self.runner = TurnRunner(
            self, self.settlement, self.gateway, self.sandboxes, files.fetch, presence, self.telling.listen
        )
        self.running_turns: dict[int, RunningTurn] = {}  # by session
        self.paused_agents = PausedAgents(self)
        self._versions: asyncio.Task[None] | None = None
        self._backlog = Backlog(self._look)
        self._policy = AccessPolicy.of(settings)
        self._album_due_ms: int | None = 0  # when the next album may be whole; None: none gathers
        self._has_repaired = False
        self._made_room: set[int] = set()  # urgent sessions for which a turn was interrupted, and which still wait

    async def repair(self) -> None:
        """Fail the turns of earlier processes, to be tried again: the lock tells that those processes are gone.

        Where more than dispatch went away, or it ended well, no message is to blame for it.
        """
        now_ms = clock.now_ms()
        tokens = [claim.token for claim, _ in claims.running(self.reader)]
        if ended := await asyncio.to_thread(leftover_processes.kill, tokens):
            log.warning("dispatch.remains_ended", processes=ended)

        def work(conn: apsw.Connection) -> list[Claim]:
            known: EventData = {
                "agents": [a.id for a in agents.every(conn)],
                "teams": [t.id for t in teams.every(conn)],
            }
            events.append(conn, "processor_start", now_ms=now_ms, data=known)
            agent_pauses.try_at_start(conn, now_ms=now_ms)
            this = host.identity(meta.get(conn, "epoch"))
            is_lost = meta.get(conn, _HOST) != this
            since_ms = int(meta.get(conn, _BEGAN) or 0)
            meta.put(conn, _HOST, this)
            meta.put(conn, _BEGAN, str(now_ms))
            policy = RetryPolicy.of(self.settings)
            lost = turns.rescue(conn, policy, now_ms=now_ms, everything=True, is_host_lost=is_lost, since_ms=since_ms)
            permission_requests.end_lost(conn, now_ms=now_ms)
            return lost

        lost = await self.writer.run(work)
        self._has_repaired = True
        if lost:
            log.warning("dispatch.rescued", turns=len(lost))
            self.kick("deliver")
        if self._versions is None:
            self._versions = asyncio.create_task(program_versions.tell(agents.every(self.reader)))

    async def repair_past(self, past: Past) -> None:
        """Fail the turns of replays whose process is gone; what ran at that instant stays as it was."""

        def work(conn: apsw.Connection) -> None:
            policy, now_ms = RetryPolicy.of(self.settings), clock.now_ms()
            turns.rescue(conn, policy, now_ms=now_ms, everything=True, only=past_replays.sessions(conn, past))

        await self.writer.run(work)
        await super().repair_past(past)

    async def step_in_past(self, past: Past) -> float | None:
        """Start the turns of replays only; the seconds until a replay may have more."""
        if self.settlement.unwritten:
            await self.settlement.write_unwritten()
        busy = {turn.claim.agent for turn in self.running_turns.values()}
        room = self.settings.max_concurrent_turns - self.worker.running
        ready = past_replays.ready(self.reader, past, now_ms=clock.now_ms(), busy=busy)[: max(0, room)]
        if ready:
            await self._start(ready)
        return _REPLAY_PAUSE_S if past_replays.is_waiting(self.reader, past) else None

    async def work_is_over(self) -> None:
        if self._versions is not None:
            self._versions.cancel()
            await asyncio.gather(self._versions, return_exceptions=True)
        await self.paused_agents.close()
        if self._has_repaired:
            with contextlib.suppress(apsw.Error):  # else the next start takes this for a loss of dispatch
                await self.writer.run(lambda conn: meta.put(conn, _HOST, ""), durable=False)
        await self.gateway.close()
        await self.sandboxes.close()
        await self.client.close()

    async def claim_and_start(self) -> float | None:
        """Claim the turns that are ready, as far as there is room, and start them; the seconds until more is due."""
        if self.settlement.unwritten and await self.settlement.write_unwritten():
            self._backlog.forget()
        if await self.paused_agents.look(now_ms=clock.now_ms()):
            self._backlog.forget()
        await self._join_albums()
        await self._remove_progress_lines()
        self._interrupt()
        for turn in self.running_turns.values():
            turn.look()
            self.telling.look(turn)
        room = self.settings.max_concurrent_turns - self.worker.running
        now_ms = clock.now_ms()
        taken = self._backlog.take(room, now_ms=now_ms)
        if taken or messages.is_unannounced(self.reader):
            await self._start(taken)
            self.kick("api")
            if messages.is_unannounced(self.reader):
                return 0.0
        if self.settlement.unwritten:
            return UNWRITTEN_PAUSE_S
        self._album_due_ms = albums.next_due(self.reader)
        dues = (ready_sessions.next_due(self.reader, now_ms=now_ms), self._album_due_ms)
        due = min((each for each in dues if each is not None), default=None)
        return None if due is None else max(0.0, (due - clock.now_ms()) / 1000)

    async def _join_albums(self) -> None:
        """Make messages of the albums that are whole by now."""
        if self._album_due_ms is None or clock.now_ms() < self._album_due_ms:
            return
        handled = await self.writer.run(
            lambda conn: events_of_platforms.handle_due_albums(conn, self._policy, now_ms=clock.now_ms())
        )
        if any(each.said for each in handled):
            self.kick("deliver")
        if any(each.stored for each in handled):
            self._backlog.forget()

    async def _remove_progress_lines(self) -> None:
        """Remove the lines of progress of turns that are over."""
        if not progress_lines.over(self.reader):
            return
        await self.writer.run(lambda conn: progress.remove_old(conn, now_ms=clock.now_ms()), durable=False)
        self.kick("deliver")

    async def _start(self, taken: list[ReadySession]) -> None:
        by_session = {each.session_id: each for each in taken}
        for claim in await self._claims(taken):
            found = by_session[claim.session_id]
            turn = RunningTurn(claim, self._batch_size(found), found.is_suspect)
            self.running_turns[claim.session_id] = turn
            turn.task = self.worker.start(self._run(turn))
        await asyncio.sleep(0)  # the turns begin: the next step may interrupt each of them

    def _look(self, now_ms: int) -> list[ReadySession]:
        held = {session: turn.claim.agent for session, turn in self.running_turns.items()}
        has_suspect = any(turn.is_suspect for turn in self.running_turns.values())
        return ready_sessions.find(self.reader, now_ms=now_ms, held=held, has_suspect=has_suspect)

    async def _claims(self, taken: list[ReadySession]) -> list[Claim]:
        """The claims of these sessions, except those with a row that can't be used."""
        try:
            return await self.claim(partial(self._claim, taken=taken), durable=False)
        except OF_ONE_ROW:  # nothing of it was kept
            self._backlog.forget()  # another session takes the place of one that waits now
            self.worker.wake()
            return await self.claim(partial(self._claim_apart, taken=taken), durable=False)

    def _claim(self, conn: apsw.Connection, taken: list[ReadySession]) -> list[Claim]:
        messages.announce(conn)
        claimed = (self._claim_one(conn, each) for each in taken)
        return [claim for claim in claimed if claim is not None]

    def _claim_apart(self, conn: apsw.Connection, taken: list[ReadySession]) -> list[Claim]:
        """As ``_claim``, each session in a savepoint of its own; a row that can't be used is set aside."""
        claimed = []
        for each in taken:
            try:
                with savepoint(conn):
                    claimed.append(self._claim_one(conn, each))
            except OF_ONE_ROW as error:
                row = error.row_id if isinstance(error, UnreadableMessage) else each.head
                turns.set_aside(conn, row, error, RetryPolicy.of(self.settings), now_ms=clock.now_ms())
        return [claim for claim in claimed if claim is not None]

    def _claim_one(self, conn: apsw.Connection, session: ReadySession) -> Claim | None:
        return claims.claim(
            conn,
            session.agent,
            session.session_id,
            token=f"turn_{chance.token_urlsafe(6)}",
            now_ms=clock.now_ms(),  # not earlier: the lease must not run while we wait for the write lock
            lease_ms=self.settings.lease_ms,
            limit=self._batch_size(session),
            pass_over=series.pass_over_messages,
        )

    def _batch_size(self, session: ReadySession) -> int:
        return session.batch_size or self.settings.batch_size

    async def _run(self, turn: RunningTurn) -> None:
        try:
            await self.runner.run(turn)
        except asyncio.CancelledError:
            self._backlog.forget()
            raise
        finally:
            # Not earlier: a turn that lost its lease (the machine slept) runs on until its renewal ends it.
            self.running_turns.pop(turn.claim.session_id, None)

    def _interrupt(self) -> None:
        """End the turns whose messages were cancelled, and those that are interrupted by another message."""
        if not self.running_turns and not self._made_room:
            return
        now_ms = clock.now_ms()
        urgent = ready_sessions.urgent_sessions(self.reader, now_ms=now_ms)
        interrupted = ready_sessions.interrupted_sessions(self.reader)
        for session, turn in self.running_turns.items():
            if not turn.is_interruptible:
                continue
            if not claims.is_held(self.reader, turn.claim):
                self._end_early(turn, "interrupted (cancelled)")
            elif session in urgent and claims.would_gain(self.reader, turn.claim, now_ms=now_ms, limit=turn.batch_size):
                self._end_early(turn, "interrupted (an urgent message came)")
            elif session in interrupted and self._is_interrupted(turn, now_ms):
                self._end_early(turn, turns.ANOTHER_CAME)
        self._made_room &= urgent.keys() - self.running_turns.keys()
        for session, agent in urgent.items():
            if session not in self.running_turns and session not in self._made_room:
                self._make_room(session, agent, now_ms)

    def _is_interrupted(self, turn: RunningTurn, now_ms: int) -> bool:
        limit = turn.batch_size
        return bool(claims.may_join(self.reader, turn.claim, "interrupt", now_ms=now_ms, limit=limit))

    def _make_room(self, session: int, agent: str, now_ms: int) -> None:
        """Interrupt the youngest turn of a busy agent for the urgent *session*; at most once for each wait.

        A turn that has spoken would not be run again, so it goes on.
        """
        turns_of_agent = [turn for turn in self.running_turns.values() if turn.claim.agent == agent]
        known = agents.get(self.reader, agent)
        if known is None or len(turns_of_agent) < known.concurrency:
            return
        if not all(turn.is_interruptible for turn in turns_of_agent):
            return  # one of them is just ending, or just beginning
        lesser = [turn for turn in turns_of_agent if self._may_be_repeated(turn.claim)]
        if lesser and claims.is_due(self.reader, agent, session, now_ms=now_ms):
            self._made_room.add(session)
            self._end_early(lesser[-1], "interrupted (an urgent message came elsewhere)")

    def _may_be_repeated(self, claim: Claim) -> bool:
        return not (claims.has_urgent_message(self.reader, claim) or spoken.has_spoken(self.reader, claim.token))

    def _end_early(self, turn: RunningTurn, reason: str) -> None:
        if turn.task is not None:
            log.info("turn.interrupted", turn=turn.claim.token, reason=reason)
            turn.interrupted_by = reason
            turn.is_interruptible = False
            turn.task.cancel()
            self._backlog.forget()  # the session waits again, in the order of its age


niceness = 15
"""Turns and agents' programs give way to the other functions of a machine: a webhook must be answered within seconds,
and a turn may take minutes. Read by ``infra.runner``."""

_service = LazyService(Dispatch)
lifespan = _service.lifespan
_app = function_app("dispatch", [tick_route(_service, wake)])


@framework.http
async def dispatch(_: Request) -> Response:
    """The handler: ``/tick`` and ``/healthz``."""
    return AppResponse(_app)
