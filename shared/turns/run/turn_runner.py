"""Runs a turn from claim to settlement: the lease is renewed, the agent runs, and the end is written."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import Any

import apsw
import msgspec

from shared.agents import leftover_processes
from shared.agents.base import Acted, ProviderEvent, Turn
from shared.agents.programs.sandboxes import Sandboxes
from shared.core import content, logs
from shared.core.errors import ClaimLost, NotFound, WrongState
from shared.core.time import clock
from shared.db.access.questions import Question
from shared.db.queue import claims, sessions
from shared.db.queue.claims import Claim
from shared.db.queue.message_row import Message
from shared.db.roster.agents import Agent
from shared.db.spending.usage import TurnName
from shared.queue import answers, turns
from shared.queue.turns import Failure
from shared.runtime.worker_service import WorkerService
from shared.turns.gateway import turn_names
from shared.turns.gateway.model_gateway import ModelGateway
from shared.turns.run import auto_provider
from shared.turns.run.agent_run import AgentAnswer, Outcome, TurnWatch, run_agent
from shared.turns.run.files import hearing
from shared.turns.run.files.inbox import Fetch, no_channel
from shared.turns.run.permissions import TurnPermissions
from shared.turns.run.settlement import Settlement
from shared.turns.run.showing.presence import Presence, SaidSoFar
from shared.turns.run.sounds import SoundMakers
from shared.turns.tools import company
from shared.turns.tools.toolbox import Caller, SessionToolbox

log = logs.get()


class RunningTurn(msgspec.Struct):
    """A turn of this process.

    Attributes:
        is_suspect: it may be what killed an earlier process, so no other suspect runs beside it.
        is_interruptible: the agent runs. A task that is cancelled before never gives its messages back; one that is
            cancelled after loses an outcome that is there.
        interrupted_by: what interrupted it, for the row of a turn that has spoken.
        telling: what tells the turn more while it runs, and adds it to the claim; see ``telling``.
        hears: whether its program could be told something when that was last looked at.
        over: its agent has ended, and only what it was told last is open.
        permissions: whom its program asks before it does something.
    """

    claim: Claim
    batch_size: int
    is_suspect: bool = False
    task: asyncio.Task[None] | None = None
    is_interruptible: bool = False
    interrupted_by: str = turns.STOPPED
    telling: asyncio.Task[None] | None = None
    hears: bool = False
    over: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    permissions: TurnPermissions | None = None

    def look(self) -> None:
        """A kick: an approver may have decided what the turn waits for."""
        if self.permissions is not None:
            self.permissions.look()

    async def whole_claim(self) -> Claim:
        """All that the turn holds, once it is told nothing more. A stop does not cut this off: rows would be left."""
        while self.telling is not None and not self.telling.done():
            self.over.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({self.telling})
        return self.claim


class TurnRunner:
    """Runs turns for *service*, outside any transaction."""

    def __init__(
        self,
        service: WorkerService,
        settlement: Settlement,
        gateway: ModelGateway,
        sandboxes: Sandboxes | None = None,
        fetch: Fetch = no_channel,
        presence: Presence | None = None,
        on_event: Callable[[RunningTurn], None] = lambda _: None,
    ) -> None:
        self._service = service
        self._settlement = settlement
        self._gateway = gateway
        self._sandboxes = sandboxes
        self._fetch = fetch
        self._presence = presence
        self._sounds = SoundMakers(gateway, service.settings)
        self._on_event = on_event

    async def run(self, turn: RunningTurn) -> None:
        """One turn. Cancelling it ends the agent and gives the messages back."""
        claim = turn.claim
        context = {"turn": claim.token, "agent": claim.agent, "message_id": claim.asked[0].message_id}
        this = asyncio.current_task()
        renewal = asyncio.create_task(self._renew(turn, this.cancel if this else lambda: None))
        started_ms = clock.now_ms()
        try:
            turn.is_interruptible = True
            outcome = await self._run_agent(turn)
            turn.is_interruptible = False
            await self._settlement.end(as_heard(await turn.whole_claim(), outcome), outcome)
        except asyncio.CancelledError:
            try:
                await asyncio.to_thread(leftover_processes.kill, [claim.token])
            finally:  # also when a stop cancels it a second time: nothing else would give the messages back
                await self._settlement.give_back(await turn.whole_claim(), turn.interrupted_by)
            raise
        except ClaimLost as error:
            log.warning("turn.lost", reason=str(error), **context)
            return
        finally:
            renewal.cancel()
        facts = {"ms": clock.now_ms() - started_ms, "batch": len(claim.batch), **context}
        if isinstance(outcome, Failure):
            log.warning("turn.failed", reason=outcome.reason, **facts)
        else:
            log.info("turn.done", **facts)

    async def _run_agent(self, turn: RunningTurn) -> Outcome:
        service, claim = self._service, turn.claim
        turn.permissions = TurnPermissions(service, claim, wait_ms=service.settings.permission_wait_ms)
        tools = SessionToolbox(service, service.settings, Caller.of(claim), speak=partial(self._speak, claim))
        save = partial(self._save_continuation, claim)
        try:
            try:
                await self._note_company(claim)
            except apsw.Error:
                log.exception("turn.company_not_noted", turn=claim.token)
                return Failure("it could not be written that a stranger takes part; the log of dispatch says why")
            agent = await auto_provider.agent_of(service.reader, service.writer, claim)
            answered = await keep_answers(service, claim, claim.batch)
            async with self._shown(claim) as said:
                return await run_agent(
                    service.reader,
                    service.settings,
                    claim,
                    agent,
                    save,
                    self._gateway,
                    tools,
                    answered,
                    self._sandboxes,
                    self._fetch,
                    TurnWatch(said.say, partial(self._happened, turn, said)),
                    partial(self._hear, turn),
                    turn.permissions,
                )
        finally:
            tools.close()
            await asyncio.shield(turn.permissions.close())

    def _happened(self, turn: RunningTurn, said: SaidSoFar, event: ProviderEvent) -> None:
        if isinstance(event, Acted):
            said.acts.append(event.tool)
        self._on_event(turn)

    def _shown(self, claim: Claim) -> AbstractAsyncContextManager[SaidSoFar]:
        """Typing in the chat. A task that may ask no model shows none."""
        if self._presence is None or claim.asked[0].is_gated:
            return contextlib.nullcontext(SaidSoFar.nothing())
        return self._presence.shown(claim)

    async def _hear(self, turn: RunningTurn, prepared: Turn, agent: Agent, name: TurnName, limit_s: float) -> Turn:
        """The turn with the words of its voice messages in their texts, and in its rows."""
        transcribe, keep = partial(self._sounds.transcribe, agent, name), partial(self._keep_words, turn)
        return await hearing.with_words(self._service.reader, turn.claim, prepared, transcribe, keep, limit_s=limit_s)

    async def _speak(self, claim: Claim, agent: Agent, text: str) -> bytes | None:
        """See ``Speak``."""
        session = sessions.get(self._service.reader, claim.session_id)
        return await self._sounds.speak(agent, turn_names.of(claim, session), text)

    async def _keep_words(self, turn: RunningTurn, message_id: str, files: list[Any]) -> None:
        """Write the attachments with their words into the message's row, durably: they may have cost money.

        Raises:
            ClaimLost: the turn is lost.
        """
        claim, words = turn.claim, content.files_in_words(files)
        row_id = next(each.id for each in claim.batch if each.message_id == message_id)
        keep = partial(
            claims.keep_files, claim=claim, row_id=row_id, files=json.dumps(files), words=words, now_ms=clock.now_ms()
        )
        try:
            await self._service.writer.run(keep)
        except apsw.Error:
            log.exception("turn.words_not_kept", turn=claim.token)
        turn.claim = replace(claim, batch=tuple(_in_words(each, row_id, words) for each in claim.batch))

    async def _note_company(self, claim: Claim) -> None:
        """Note in the session's row that a stranger has written, before the words reach the agent."""
        if company.brings_strangers(self._service.reader, claim.session_id, claim.batch):
            work = partial(sessions.note_strangers, id_=claim.session_id, now_ms=clock.now_ms())
            await self._service.writer.run(work, durable=False)

    async def _save_continuation(self, claim: Claim, continuation: str, provider: str | None = None) -> None:
        """Store it in the session's row, durably. If that fails, the turn goes on, and its settlement writes it."""
        work = partial(sessions.save_continuation, claim=claim, continuation=continuation, provider=provider)
        try:
            await self._service.writer.run(work)
        except apsw.Error:
            log.exception("turn.continuation_not_saved", turn=claim.token)

    async def _renew(self, turn: RunningTurn, on_lost: Callable[[], object]) -> None:
        """Renew the lease until cancelled; call *on_lost* when the lease has another owner."""
        lease_ms = self._service.settings.lease_ms
        while True:
            await asyncio.sleep(lease_ms / 3000)
            until = clock.now_ms() + lease_ms
            try:
                work = partial(claims.renew, claim=turn.claim, lease_until=until)
                await self._service.writer.run(work, durable=False)
            except ClaimLost:
                on_lost()
                return
            except apsw.Error:
                log.exception("turn.renewal_failed", turn=turn.claim.token)


async def keep_answers(service: WorkerService, claim: Claim, heard: Sequence[Message]) -> Mapping[int, Question]:
    """The questions that texts of the turn answer, by the row of the message; their rows say so now.

    Args:
        heard: the messages that the turn has, or is to be told now.
    """
    found = answers.find(service.reader, claim.session_id, heard)
    if any(question.status == "open" for question in found.values()):
        keep = partial(answers.keep, answered=found, batch=heard, now_ms=clock.now_ms())
        try:
            await service.writer.run(keep)
        except (NotFound, WrongState):  # a button was pressed meanwhile
            return {}
        except apsw.Error:
            log.exception("turn.answer_not_kept", turn=claim.token)
    return found


def _in_words(message: Message, row_id: int, words: str) -> Message:
    """The message of this row with its files in these words, where it has no text."""
    if message.id != row_id or message.message:
        return message
    return message._replace(content={**message.content, "only_files": words})


def as_heard(claim: Claim, outcome: Outcome) -> Claim:
    """The claim by what the agent has heard: a session that began anew knows nothing that was told before."""
    if not isinstance(outcome, AgentAnswer) or not outcome.begun_anew:
        return claim
    return replace(claim, told=(), untold=(*claim.told, *claim.untold))
