"""Runs an agent over a claimed batch and returns the outcome; of the rows it writes only the continuation."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Self

import apsw
import msgspec

from shared.agents import leftover_processes, memory, prompt, registry, session_files, skills
from shared.agents.access import Toolbox
from shared.agents.base import Failed, Init, ProviderEvent, Result, Text, Turn, TurnMessage, Used
from shared.agents.memory import RememberedLine
from shared.agents.programs.limits import Limits
from shared.agents.programs.sandboxes import Sandboxes
from shared.agents.prompt import EarlierMessage
from shared.core import logs
from shared.core.errors import ConfigInvalid, PostroomError
from shared.core.failures import FailureCode
from shared.core.settings import Settings
from shared.core.time import clock
from shared.db.access.questions import Question
from shared.db.engine import owner_only
from shared.db.queue import sessions, spoken
from shared.db.queue.claims import Claim
from shared.db.queue.message_row import Message
from shared.db.queue.sessions import Session
from shared.db.roster import memory_lines
from shared.db.roster.agents import Agent
from shared.db.spending.usage import TurnName
from shared.db.views.history_index import path_of as index_of
from shared.queue import answers, series
from shared.queue.teamwork import chains
from shared.queue.teamwork.chains import MailLimits
from shared.queue.turns import Failure, TurnReply
from shared.roster import tool_servers
from shared.turns.gateway import ledger, turn_names
from shared.turns.gateway.model_gateway import ModelGateway
from shared.turns.run import already_said, lost_session, model_fallback, refusals
from shared.turns.run.answers import TurnAnswers
from shared.turns.run.continuation import RunningContinuation, SaveOfProvider
from shared.turns.run.doors import TurnDoors
from shared.turns.run.files import answer_files, inbox, passed_files
from shared.turns.run.files.inbox import Fetch, no_channel
from shared.turns.run.gate import task_gate
from shared.turns.run.gate.task_gate import Spared
from shared.turns.run.lost_session import SessionStory
from shared.turns.run.permissions import TurnPermissions
from shared.turns.tools.outbox_files import FilePlace, FileTaker

log = logs.get()

BEGUN_ANEW = "(My memory of our conversation was lost; I continued from the last messages that are kept here.)"


class AgentAnswer(msgspec.Struct, frozen=True):
    """The agent answered.

    Attributes:
        continuation: the provider's own id of the conversation, for the next turn of the session, or None.
        provider: whose continuation it is.
        begun_anew: the provider had lost the session, so the turn began a fresh one from our history.
        chose_silence: the agent marked what it said as internal, so no answer is no failure.
        provider_before: whose session was left, because the agent has another provider now; None: nobody's.
    """

    said: Sequence[TurnReply]
    continuation: str | None
    provider: str | None = None
    begun_anew: bool = False
    chose_silence: bool = False
    provider_before: str | None = None


Outcome = AgentAnswer | Spared | Failure
"""The result of a turn."""

_MOST_TEXTS = 1000  # of one turn; each is a message to a person


class TurnWatch(msgspec.Struct, frozen=True):
    """What is told of a turn while it runs.

    Attributes:
        said: the agent has said more; the argument reads all that it has said so far.
        happened: each event of the provider.
    """

    said: Callable[[Callable[[], str]], None] = lambda _: None
    happened: Callable[[ProviderEvent], None] = lambda _: None


UNWATCHED = TurnWatch()


Hear = Callable[[Turn, Agent, TurnName, float], Awaitable[Turn]]
"""The turn with the words of its voice messages, found within so many seconds."""


async def _hear_nothing(turn: Turn, _: Agent, __: TurnName, ___: float) -> Turn:
    """The ``Hear`` where nothing makes text of sound."""
    return turn


async def run_agent(
    reader: apsw.Connection,
    settings: Settings,
    claim: Claim,
    agent: Agent | None,
    save: SaveOfProvider,
    gateway: ModelGateway,
    tools: Toolbox,
    answered: Mapping[int, Question],
    sandboxes: Sandboxes | None = None,
    fetch: Fetch = no_channel,
    watch: TurnWatch = UNWATCHED,
    hear: Hear = _hear_nothing,
    permissions: TurnPermissions | None = None,
) -> Outcome:
    """Run the agent of *claim* within its time limit. Errors of the provider become a ``Failure``.

    Args:
        agent: with the provider that runs its turns; None: it does not exist any more.
        save: stores the continuation that the provider gives while the turn runs.
        gateway: the way of the turn's program to models and tools.
        tools: of the turn.
        answered: the questions that messages of the turn answer, by the row of the message.
        sandboxes: of dispatch; see ``shared/agents/programs``.
        fetch: gets what people attached to their messages.
        watch: told of the turn while it runs.
        hear: makes text of voice messages.
        permissions: whom the turn's program asks before it does something.
    """
    session = sessions.get(reader, claim.session_id)
    if agent is None or session is None:
        return Failure(
            f"agent {claim.agent!r} no longer exists: create it again, then retry the message", retryable=False
        )
    if all(each.channel == series.HEARTBEAT for each in claim.asked):
        why = ledger.spares(reader, agent.id, settings.timezone, now_ms=clock.now_ms())
        if why is not None:
            return Spared(why)
    if (too_costly := chains.too_costly(reader, claim.asked, MailLimits.of(settings))) is not None:
        return Failure(too_costly, retryable=False, code="chain_cost")
    stopped = await gateway.stop(agent.id, now_ms=clock.now_ms())
    if stopped is not None:
        return refusals.failure_of(stopped)
    doors = TurnDoors(gateway, turn_names.of(claim, session), tools, agent.config)
    note = already_said.note(reader, claim, now_ms=clock.now_ms())
    batch = tuple(turn_message(message, answered.get(message.id)) for message in claim.batch)
    batch = batch if note is None else (note, *batch)
    outcome = await _run(
        reader, claim, agent, session, settings, save, doors, batch, sandboxes, fetch, watch, hear, permissions
    )
    if isinstance(outcome, AgentAnswer) and _says_nothing(reader, claim, outcome):
        outcome = Failure("the agent said nothing")
    if isinstance(outcome, Failure) and doors.refusal is not None:
        return refusals.decide(outcome, doors.refusal)
    return outcome


def _says_nothing(reader: apsw.Connection, claim: Claim, answer: AgentAnswer) -> bool:
    return not answer.said and not answer.chose_silence and not spoken.has_spoken(reader, claim.token)


class TurnFacts(NamedTuple):
    """What the end of a turn needs of the rows, read only where it does.

    Attributes:
        earlier: what was said in the session before.
        place: of the session's files.
        taker_of: what the receiver of the answers to a message can be given.
        has_spoken: whether something of this turn is said for good already.
        story: how the provider's session begins; the turn writes it.
    """

    earlier: Callable[[], list[EarlierMessage]]
    place: FilePlace
    taker_of: Callable[[Message], FileTaker]
    has_spoken: Callable[[], bool]
    story: SessionStory

    @classmethod
    def of(cls, reader: apsw.Connection, claim: Claim, turn: Turn, settings: Settings) -> Self:
        """The facts of the turn of *claim*."""
        return cls(
            earlier=partial(lost_session.history, reader, claim),
            place=FilePlace(turn.folder, turn.session, settings.files / claim.token),
            taker_of=partial(answer_files.taker_of, reader),
            has_spoken=partial(spoken.has_spoken, reader, claim.token),
            story=SessionStory(),
        )


async def _run(
    reader: apsw.Connection,
    claim: Claim,
    agent: Agent,
    session: Session,
    settings: Settings,
    save: SaveOfProvider,
    doors: TurnDoors,
    batch: tuple[TurnMessage, ...],
    sandboxes: Sandboxes | None,
    fetch: Fetch,
    watch: TurnWatch,
    hear: Hear,
    permissions: TurnPermissions | None,
) -> Outcome:
    limit_s = (agent.turn_timeout_ms or settings.turn_timeout_ms) / 1000
    try:
        try:
            turn = _turn(reader, claim, agent, session, settings, doors, batch, sandboxes, permissions)
            facts = TurnFacts.of(reader, claim, turn, settings)
            async with asyncio.timeout(limit_s) as limit:
                doors.ends_with(limit)
                await registry.load(agent.provider)
                if permissions is not None:
                    permissions.stands_still(limit)
                gated = await task_gate.look(reader, claim, turn)
                if not isinstance(gated, Turn):
                    return gated
                turn = gated
                if agent.provider in registry.PROGRAMS:
                    session_files.make_outbox(turn.folder, turn.session)
                turn = await inbox.with_files(reader, claim, turn, passed_files.beside(fetch, settings.files))
                turn = await hear(turn, agent, doors.name, limit_s / 2)
                if session.continued_by not in (None, agent.provider) and turn.continuation is not None:
                    log.warning("session.of_another_provider", agent=agent.id, session=session.session_id)
                    turn = lost_session.begin_afresh(turn, facts.earlier(), facts.story)
                    facts.story.provider_before = session.continued_by
                elif session.continued_by is not None and turn.continuation is None:  # a person had it forgotten
                    turn = lost_session.begin_afresh(turn, facts.earlier(), facts.story)
                return await _listen(turn, agent, claim, save, doors, facts, watch)
        except TimeoutError:
            await asyncio.to_thread(leftover_processes.kill, [claim.token])
            reason = _limits(agent, settings).ended(f"the agent gave no result within {limit_s:g} s", "turn_timeout_ms")
            return Failure(reason, code="turn_timeout")
    except ConfigInvalid as error:  # every message of the agent would fail alike
        return Failure(str(error), code="bad_config")
    except PostroomError as error:
        return Failure(str(error), retryable=False)
    except Exception as error:  # the batch boundary: the row has the reason, the other turns continue
        log.exception("turn.provider_failed", turn=claim.token, agent=claim.agent)
        return Failure(f"the provider failed ({type(error).__name__}); the log of dispatch says where")


def _turn(
    reader: apsw.Connection,
    claim: Claim,
    agent: Agent,
    session: Session,
    settings: Settings,
    doors: TurnDoors,
    batch: tuple[TurnMessage, ...],
    sandboxes: Sandboxes | None,
    permissions: TurnPermissions | None,
) -> Turn:
    folder = settings.agents_dir / (agent.folder or agent.id)
    owner_only.make_folder(folder)
    return Turn(
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
        limits=_limits(agent, settings),
        leash=settings.leash,
        private=(settings.db, index_of(settings.db), settings.sockets, settings.files, settings.agents_dir),
        sandboxes=sandboxes,
        doors=doors,
        tools=doors.tools,
        permissions=permissions,
        timezone=agent.timezone,
        memory_file=memory.read(folder),
        remembered=_remembered(reader, agent, session),
        is_with_strangers=session.strangers_at is not None,
        skills=skills.of_agent(folder),
        tool_servers=tool_servers.of_program(reader, agent),
    )


def _remembered(reader: apsw.Connection, agent: Agent, session: Session) -> tuple[RememberedLine, ...]:
    found = [] if agent.memory == "off" else memory_lines.visible(reader, session)
    return tuple(RememberedLine(each.line_id, each.text, each.by, each.created_at) for each in found)


def _limits(agent: Agent, settings: Settings) -> Limits:
    return Limits(
        idle_ms=agent.idle_timeout_ms or settings.idle_timeout_ms,
        tool_ms=agent.tool_timeout_ms or settings.tool_timeout_ms,
        output_bytes=agent.output_limit_bytes or settings.output_limit_bytes,
        memory_bytes=(agent.memory_limit_mb or settings.memory_limit_mb) * 1024**2,
        disk_bytes=(agent.disk_limit_mb or settings.disk_limit_mb) * 1024**2,
        agent=agent.id,
    )


def turn_message(message: Message, answers_to: Question | None = None) -> TurnMessage:
    """The message as its agent may see it. *answers_to*: the question that it answers."""
    reply = message.content.get("reply_to")
    quoted = reply.get("text") if reply else None
    about = message.content.get("about")
    return TurnMessage(
        message_id=message.message_id,
        kind=message.kind,
        sender=message.sender,
        text=message.message,
        at_ms=message.created_at,
        reply_to=answers.named(answers_to) if answers_to is not None else quoted,
        is_context=not message.trigger,
        from_agent=message.from_agent,
        about=(about["as"], about["message_id"]) if about else None,
    )


def _with_models(
    turn: Turn, agent: Agent, doors: TurnDoors, facts: TurnFacts, story: SessionStory
) -> AsyncGenerator[ProviderEvent, None]:
    """The events of the turn with the agent's model, or with one of its others where that can't answer."""

    def run_with(model: str | None) -> AsyncGenerator[ProviderEvent, None]:
        doors.refusal = None  # of the model before
        with_model = turn if model == turn.model else replace(turn, model=model)
        return lost_session.run(registry.get(agent.provider), with_model, facts.earlier, story)

    def cause(failed: Failed) -> FailureCode:
        guess = Failure(failed.reason, code=failed.code)
        return (guess if doors.refusal is None else refusals.decide(guess, doors.refusal)).code

    models = [turn.model, *agent.models]
    return model_fallback.run(run_with, models, cause=cause, has_spoken=facts.has_spoken, agent=agent.id)


async def _listen(
    turn: Turn,
    agent: Agent,
    claim: Claim,
    save: SaveOfProvider,
    doors: TurnDoors,
    facts: TurnFacts,
    watch: TurnWatch,
) -> Outcome:
    story = facts.story
    said = TurnAnswers(claim, story.told)
    running = _with_models(turn, agent, doors, facts, story)
    async with (
        RunningContinuation(turn.continuation, lambda given: save(given, agent.provider)) as continuation,
        contextlib.aclosing(running) as provider_events,
        doors,  # they close before the program is ended: nothing that it still asks for is let through
    ):
        async for event in provider_events:
            watch.happened(event)
            match event:
                case Init():
                    continuation.set(event.continuation)
                case Used():
                    await doors.record(event)
                case Text() if said.count >= _MOST_TEXTS:
                    return Failure(f"the agent gave more than {_MOST_TEXTS} texts in one turn", code="output_limit")
                case Text():
                    await said.hear(event.text, event.answers)
                    watch.said(said.so_far)
                case Result():
                    await said.hear(event.text or "")
                    break
                case Failed():
                    return Failure(event.reason, event.retryable, event.wait_ms, event.code, event.until_ms)
        if story.is_memory_lost:
            said.append_note(BEGUN_ANEW)
        replies = await said.replies(facts.place, facts.taker_of)
        if replies:
            continuation.leave_to_settlement()
        return AgentAnswer(
            replies,
            continuation.value,
            agent.provider,
            story.begun_anew,
            said.chose_silence,
            provider_before=story.provider_before,
        )
