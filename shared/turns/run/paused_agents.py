"""Paused agents, while dispatch runs: people are informed, providers are checked, and agents are resumed."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

import apsw

from shared.conversation.access import people
from shared.core import ids, logs
from shared.core.text import redaction
from shared.core.time import backoff, clock
from shared.db.access import user_roles, users
from shared.db.engine.connection import rows
from shared.db.queue import claims, ready_sessions, responses
from shared.db.queue.message_row import Message
from shared.db.roster import agent_pauses, agents
from shared.db.roster.agent_pauses import FIRST_CHECK_MS, AgentPause
from shared.db.roster.agents import Agent
from shared.queue import replies
from shared.runtime.worker_service import WorkerService
from shared.turns.gateway.upstreams import GatewaySettings
from shared.turns.run import agent_check, pause_sentences

log = logs.get()

OPERATOR = "operator"
NOTICE = '{"notice": "agent_paused"}'
"""The metadata of these notices: they are no answers, and no agent gets them as input."""

_LOOK_EVERY_MS = 1000
_PROBE_TIMEOUT_S = 20.0


class PausedAgents:
    """Handles the paused agents, with the reader and writer of *service*."""

    def __init__(self, service: WorkerService) -> None:
        self._service = service
        self._looked_at_ms = 0
        self._probes: dict[str, asyncio.Task[None]] = {}

    async def look(self, *, now_ms: int) -> bool:
        """Inform people, check providers, and resume agents, at most once a second; whether any agent was resumed."""
        if 0 <= now_ms - self._looked_at_ms < _LOOK_EVERY_MS:
            return False
        self._looked_at_ms = now_ms
        found = agent_pauses.every(self._service.reader)
        if not found:
            return False
        if _has_news(self._service.reader, found, now_ms=now_ms):
            await self._tell_and_end(now_ms)
        for pause in found.values():
            if pause.is_paused and pause.check_at is not None and pause.check_at <= now_ms:
                self._begin_probe(pause)
        return any(pause.is_paused and _is_over(pause, now_ms) for pause in found.values())

    async def _tell_and_end(self, now_ms: int) -> None:
        try:
            await self._service.writer.run(partial(tell_and_end, now_ms=now_ms))
        except Exception:  # the other agents work on, and the next look tries again
            log.exception("agent.pause_not_told")
        self._service.kick("deliver", "api")

    def _begin_probe(self, pause: AgentPause) -> None:
        if pause.agent not in self._probes:
            task = asyncio.create_task(self._probe(pause))
            self._probes[pause.agent] = task
            task.add_done_callback(lambda _: self._probes.pop(pause.agent, None))

    async def _probe(self, pause: AgentPause) -> None:
        agent = agents.get(self._service.reader, pause.agent)
        if agent is None:
            return
        try:
            work = await _ask(agent, pause)
        except Exception as error:  # its provider has a fault: the agent stays paused, and is asked again later
            log.exception("agent.not_probed", agent=agent.id)
            work = partial(_ask_later, pause=pause, reason=f"{pause.reason} ({error})", now_ms=clock.now_ms())
        try:
            await self._service.writer.run(work)
        except Exception:  # the next look asks again
            log.exception("agent.probe_not_kept", agent=agent.id)
            return
        self._service.kick("api")
        self._service.worker.wake()

    async def close(self) -> None:
        """Cancel the running checks."""
        for task in list(self._probes.values()):
            task.cancel()
        await asyncio.gather(*self._probes.values(), return_exceptions=True)


async def _ask(agent: Agent, pause: AgentPause) -> Callable[[apsw.Connection], object]:
    """The change after a check whether the agent can work: it is resumed, or checked again later, or never."""
    if not agent_check.can_be_asked(agent):
        return partial(agent_pauses.check_again, agent=agent.id, reason=pause.reason, check_at=None)
    async with asyncio.timeout(_PROBE_TIMEOUT_S):
        why = await agent_check.why_not(agent, pause.code, GatewaySettings.load(), now_ms=clock.now_ms())
    now_ms = clock.now_ms()
    if why is None:
        log.info("agent.resumed", agent=agent.id)
        return partial(agent_pauses.try_again, agent=agent.id, now_ms=now_ms)
    return partial(_ask_later, pause=pause, reason=redaction.redact(why), now_ms=now_ms)


def _ask_later(conn: apsw.Connection, pause: AgentPause, reason: str, now_ms: int) -> None:
    """Check again, later the longer the pause lasts."""
    wait_ms = backoff.outage_delay_ms(
        now_ms - pause.since, shortest_ms=FIRST_CHECK_MS, longest_ms=agent_pauses.LONGEST_CHECK_WAIT_MS
    )
    agent_pauses.check_again(conn, pause.agent, reason, check_at=now_ms + wait_ms)


def _is_over(pause: AgentPause, now_ms: int) -> bool:
    return pause.until is not None and pause.until <= now_ms


def _has_news(conn: apsw.Connection, found: dict[str, AgentPause], *, now_ms: int) -> bool:
    told = agent_pauses.told(conn)
    for pause in found.values():
        if not pause.is_paused:
            if agent_pauses.is_trial_over(pause, now_ms=now_ms):
                return True
        elif (
            _is_over(pause, now_ms)
            or (pause.agent, OPERATOR) not in told
            or any((pause.agent, place) not in told for place, _ in _waiting(conn, pause.agent, now_ms=now_ms))
        ):
            return True
    return False


def tell_and_end(conn: apsw.Connection, *, now_ms: int) -> None:
    """End the pauses that are over, and inform the operator and waiting people, each once for each pause."""
    agent_pauses.forget_trials(conn, now_ms=now_ms)
    for pause in agent_pauses.paused(conn).values():
        agent = agents.get(conn, pause.agent)
        if _is_over(pause, now_ms) or agent is None:
            agent_pauses.try_again(conn, pause.agent, now_ms=now_ms)
            continue
        if agent_pauses.mark_told(conn, agent.id, OPERATOR) and pause.code not in ("budget", "by_hand"):
            _tell_operator(conn, pause, agent, now_ms=now_ms)  # who paused it, or has the budget's card, knows
        for place, message in _waiting(conn, agent.id, now_ms=now_ms):
            if agent_pauses.mark_told(conn, agent.id, place):
                _tell(conn, message, pause_sentences.for_people(pause, agent, now_ms=now_ms), now_ms=now_ms)


def _waiting(conn: apsw.Connection, agent: str, *, now_ms: int) -> Iterator[tuple[str, Message]]:
    """The places where a person's message is due, with the first message of each."""
    for _, head, is_busy, is_later, *_ in rows(conn, ready_sessions.FIRSTS, {"agent": agent, "now": now_ms}):
        message = None if is_busy or is_later else claims.readable(conn, head)
        if message is not None and message.kind in ("chat", "chat-sdk") and _is_a_persons(message):
            place = f"chat:{message.chat_id}" if message.chat_id is not None else f"session:{message.session_id}"
            yield place, message


def _is_a_persons(message: Message) -> bool:
    return message.from_agent is None and "team" not in message.content and not message.content.get("is_answer")


def _tell(conn: apsw.Connection, asked: Message, text: str, *, now_ms: int) -> None:
    """Mark that this is not the answer: a client that waits for the answer keeps waiting."""
    new = replies.response(asked, text, agent=asked.agent, session_id=asked.session_id)
    notice = new._replace(message_id=ids.new("proactive"), in_reply_to=None, agent=None, metadata=NOTICE)
    responses.enqueue(conn, notice, now_ms=now_ms)


def _tell_operator(conn: apsw.Connection, pause: AgentPause, agent: Agent, *, now_ms: int) -> None:
    owners = user_roles.owners(conn)
    owner = users.get(conn, owners[0]) if owners else None
    approvers = people.approvers(conn, agent.id, channel=owner.channel if owner else "")
    people.tell_first(
        conn, approvers, pause_sentences.for_operators(pause, agent), page=("agents", None), now_ms=now_ms
    )
