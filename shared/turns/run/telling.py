"""Tells a turn that runs of edits and deletions of its messages, where its provider can be told.

::

    pending ── join ──> held by the turn ── the agent took it ──> ends as the turn's batch does
                                         └─ it did not ────────> pending, when the turn ends

The row joins the turn's claim before the agent is told. So whatever ends the turn, a kill too, gives the row back or
completes it together with the batch, and an edit that comes meanwhile is a row of its own.
"""

import asyncio
from dataclasses import replace
from functools import partial

import apsw

from shared.agents import prompt, registry
from shared.agents.base import ListeningProvider
from shared.core import logs
from shared.core.time import clock
from shared.db.queue import claims
from shared.db.queue.message_row import Message
from shared.db.roster import agents
from shared.runtime.worker_service import WorkerService
from shared.turns.run.agent_run import turn_message
from shared.turns.run.turn_runner import RunningTurn

log = logs.get()

_ANSWER_S = 10.0  # for the agent to say whether it took it


class Telling:
    """Tells the turns of *service*."""

    def __init__(self, service: WorkerService) -> None:
        self._service = service

    def look(self, turn: RunningTurn) -> None:
        """Begin to tell the turn what came in about its messages. It reads rows only if the turn can be told now."""
        is_telling = turn.telling is not None and not turn.telling.done()
        if is_telling or not turn.is_interruptible or turn.claim.untold:
            return
        provider = registry.listening_to(turn.claim.token)
        if provider is not None and claims.next_to_tell(self._service.reader, turn.claim) is not None:
            turn.telling = asyncio.create_task(self._tell_all(turn, provider))

    async def _tell_all(self, turn: RunningTurn, provider: ListeningProvider) -> None:
        try:
            while provider.hears(turn.claim.token) and await self._tell_next(turn, provider):
                pass
        except apsw.Error:
            log.exception("turn.not_told", turn=turn.claim.token)

    async def _tell_next(self, turn: RunningTurn, provider: ListeningProvider) -> bool:
        """Tell the oldest of what is to be told; whether the agent took it. Later ones wait behind a refused one."""
        claim, reader = turn.claim, self._service.reader
        row_id, agent = claims.next_to_tell(reader, claim), agents.get(reader, claim.agent)
        if row_id is None or agent is None or agent.models:  # another model would begin without it
            return False
        work = partial(claims.join, claim=claim, row_id=row_id, now_ms=clock.now_ms())
        joined: Message | None = await self._service.writer.run(work, durable=False)
        if joined is None:
            return False
        turn.claim = replace(claim, untold=(joined,))
        text = prompt.of_running_turn(turn_message(joined), timezone=agent.timezone)
        is_taken = await _steer(provider, claim.token, text)
        if is_taken:
            turn.claim = replace(claim, told=(*claim.told, joined))
        log.info("turn.told", turn=claim.token, message_id=joined.message_id, is_taken=is_taken)
        return is_taken


async def _steer(provider: ListeningProvider, token: str, text: str) -> bool:
    try:
        async with asyncio.timeout(_ANSWER_S):
            return await provider.steer(token, text)
    except Exception:  # the batch boundary: a provider that can't be told must not end the turn
        log.exception("turn.not_told", turn=token)
        return False
