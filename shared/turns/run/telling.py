"""Tells a turn that runs what its wiring steers into it, and of edits and deletions, where its provider can be told.

::

    pending ── join ──> held by the turn ── the agent took it ──> ends as the turn's batch does
                                         └─ it did not ────────> pending, when the turn ends

The row joins the turn's claim before the agent is told. So whatever ends the turn, a kill too, gives the row back or
completes it together with the batch, and an edit that comes meanwhile is a row of its own. A message that asks for an
answer is answered by the turn that was told it, or waits for the next one: ``db.queue.spoken`` tells which, where the
turn had spoken.
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
from shared.db.queue.claims import Claim
from shared.db.queue.message_row import Message
from shared.db.roster import agents
from shared.runtime.worker_service import WorkerService
from shared.turns.run.agent_run import turn_message
from shared.turns.run.turn_runner import RunningTurn, keep_answers
from shared.turns.tools import company

log = logs.get()

_ANSWER_S = 10.0  # from the end of the turn, for its provider to say whether it took what it was told last


class Telling:
    """Tells the turns of *service*."""

    def __init__(self, service: WorkerService) -> None:
        self._service = service

    def look(self, turn: RunningTurn) -> None:
        """Begin to tell the turn what came in. It reads rows only if the turn can be told something now."""
        if not turn.claim.untold:
            self._begin(turn)

    def listen(self, turn: RunningTurn) -> None:
        """The turn's program did something: if it can be told something now, tell it what came in before."""
        if not turn.hears:
            self._begin(turn)

    def _begin(self, turn: RunningTurn) -> None:
        is_telling = turn.telling is not None and not turn.telling.done()
        if is_telling or not turn.is_interruptible:
            return
        provider = registry.listening_to(turn.claim.token)
        turn.hears = provider is not None
        if provider is not None and (turn.claim.untold or self._next(turn.claim) is not None):
            turn.telling = asyncio.create_task(self._tell_all(turn, provider))

    def _next(self, claim: Claim) -> int | None:
        return claims.next_to_tell(self._service.reader, claim, now_ms=clock.now_ms())

    async def _tell_all(self, turn: RunningTurn, provider: ListeningProvider) -> None:
        try:
            while provider.hears(turn.claim.token) and await self._tell_next(turn, provider):
                pass
        except apsw.Error:
            log.exception("turn.not_told", turn=turn.claim.token)

    async def _tell_next(self, turn: RunningTurn, provider: ListeningProvider) -> bool:
        """Tell the oldest of what is to be told; whether the agent took it. Later ones wait behind a refused one."""
        agent = agents.get(self._service.reader, turn.claim.agent)
        if agent is None or agent.models:  # another model would begin without it
            return False
        joined = turn.claim.untold[0] if turn.claim.untold else await self._join(turn.claim)
        if joined is None:
            return False
        turn.claim = replace(turn.claim, untold=(joined,))
        if company.brings_strangers(self._service.reader, turn.claim.session_id, (joined,)):
            return False  # its prompt has what they may not see
        answered = await keep_answers(self._service, turn.claim, (joined,))
        text = prompt.of_running_turn(turn_message(joined, answered.get(joined.id)), timezone=agent.timezone)
        turn.hears = await _steer(provider, turn, text)
        if turn.hears:
            turn.claim = replace(turn.claim, told=(*turn.claim.told, joined), untold=())
        log.info("turn.told", turn=turn.claim.token, message_id=joined.message_id, is_taken=turn.hears)
        return turn.hears

    async def _join(self, claim: Claim) -> Message | None:
        """What is to be told next, which the turn now holds; None: there is nothing."""
        row_id = self._next(claim)
        if row_id is None:
            return None
        work = partial(claims.join, claim=claim, row_id=row_id, now_ms=clock.now_ms())
        joined: Message | None = await self._service.writer.run(work, durable=False)
        return joined


async def _steer(provider: ListeningProvider, turn: RunningTurn, text: str) -> bool:
    """Whether the agent took it. While its turn runs, it may take as long as it needs."""
    token = turn.claim.token
    answer, over = asyncio.ensure_future(provider.steer(token, text)), asyncio.ensure_future(turn.over.wait())
    try:
        await asyncio.wait({answer, over}, return_when=asyncio.FIRST_COMPLETED)
        async with asyncio.timeout(_ANSWER_S):
            return await answer
    except Exception:  # the batch boundary: a provider that can't be told must not end the turn
        log.exception("turn.not_told", turn=token)
        return False
    finally:
        over.cancel()
