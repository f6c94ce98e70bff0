"""What people see of a running turn: that the agent is typing and, if its row asks for it, a draft or a line.

None of this is an answer, and a failure here does not affect the turn. Typing and drafts vanish by themselves. The line
about what the agent does is a row (``shared.queue.progress``), which is removed when the turn is over. If the turn runs
again after a restart, it shows them again.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from functools import partial

import apsw
import msgspec

from shared.channels import registry
from shared.channels.base import Channel, Outgoing, Traits
from shared.core import content, logs
from shared.core.errors import PostroomError, RetryableError
from shared.db.platforms import drafts
from shared.db.queue.claims import Claim
from shared.db.queue.message_row import Message
from shared.db.roster import agents
from shared.queue import progress
from shared.queue.teamwork import mailbox
from shared.roster.served_accounts import ServedAccounts
from shared.runtime.http_client import Client
from shared.runtime.service import RowAccess
from shared.turns.run.showing import progress_words

log = logs.get()

FIRST_AFTER_S = 0.3  # a turn that is over by then shows nothing, and costs no call
REPEAT_DRAFT_S = 20.0  # a platform forgets a draft that isn't repeated: Telegram after 30 s
FIRST_LINE_S = 3.0  # of progress, from the first preview on: a line for a short turn would only disturb
REPEAT_LINE_S = 10.0  # each change counts for the limits of its chat
_LIMIT_S = 10.0  # for one call


class SaidSoFar(msgspec.Struct):
    """What the agent has said so far in its turn, as people would read it; each change sets *changed*.

    Attributes:
        text: reads it.
        acts: the names of the tools that the agent has used.
        is_shown: calls to the platform may be running.
    """

    text: Callable[[], str]
    changed: asyncio.Event
    acts: list[str] = msgspec.field(default_factory=list)
    is_shown: bool = False

    @classmethod
    def nothing(cls) -> "SaidSoFar":
        """At the beginning of a turn."""
        return cls(str, asyncio.Event())

    def say(self, text: Callable[[], str]) -> None:
        """Show more of the answer: *text* returns all that the agent has said so far."""
        self.text = text
        self.changed.set()


class Stage(msgspec.Struct, frozen=True):
    """Where a turn is seen."""

    channel: Channel
    traits: Traits
    person: Message
    to: Outgoing


class Presence:
    """Shows running turns through the adapters of their channels."""

    def __init__(
        self,
        service: RowAccess,
        accounts: ServedAccounts,
        client: Client,
        now_ms: Callable[[], int],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._sleep = sleep
        self._service = service
        self._accounts = accounts
        self._client = client
        self._now_ms = now_ms

    @contextlib.asynccontextmanager
    async def shown(self, claim: Claim) -> AsyncIterator[SaidSoFar]:
        """Show the turn until the end of the block; the caller tells the yielded object what the agent has said."""
        said = SaidSoFar.nothing()
        person = _watching(claim)
        if person is None:
            yield said
            return
        showing = asyncio.create_task(self._show(claim, person, said))
        try:
            yield said
        finally:
            showing.cancel()
            if said.is_shown:  # no call of it may follow the answer; before that, the answer does not wait
                await asyncio.gather(showing, return_exceptions=True)

    async def _show(self, claim: Claim, person: Message, said: SaidSoFar) -> None:
        await self._sleep(FIRST_AFTER_S)
        said.is_shown = True
        try:
            channel = await self._accounts.find(self._service.reader, person.channel)
            if channel is not None:
                stage = Stage(channel, registry.traits(person.channel), person, _outgoing(person))
                await asyncio.gather(*self._works(stage, claim, said))
        except Exception:  # the batch boundary: the turn goes on unseen
            log.exception("turn.not_shown", turn=claim.token)

    def _works(self, stage: Stage, claim: Claim, said: SaidSoFar) -> Iterator[Coroutine[None, None, None]]:
        if stage.traits.typing_every_ms is not None:
            yield self._type(stage, stage.traits.typing_every_ms / 1000)
        agent = agents.get(self._service.reader, claim.agent)
        is_group = bool(stage.person.content.get("is_group"))
        if stage.traits.draft_every_ms is not None and agent is not None and agent.drafts and not is_group:
            yield self._draft(stage, claim, said, stage.traits.draft_every_ms / 1000)
        elif agent is not None and agent.progress and stage.traits.has_edits and stage.traits.has_removals:
            yield self._tell_progress(stage, claim, said)

    async def _type(self, stage: Stage, every_s: float) -> None:
        """Show that the agent is typing, until cancelled or until the platform can't show it."""
        while True:
            wait_s = await self._call(lambda: stage.channel.typing(stage.to, self._client), "typing")
            if wait_s is None:
                return
            await self._sleep(max(every_s, wait_s))

    async def _draft(self, stage: Stage, claim: Claim, said: SaidSoFar, every_s: float) -> None:
        """Show drafts of what the agent has said, until cancelled or until the first failure."""
        draft_id = await self._begin(stage, claim)
        while draft_id is not None:
            said.changed.clear()
            shown = partial(stage.channel.draft, said.text(), draft_id, stage.to, self._client)
            if await self._call(shown, "draft") != 0.0:
                return
            await self._sleep(every_s)
            await self._wait_for_change(said)

    async def _tell_progress(self, stage: Stage, claim: Claim, said: SaidSoFar) -> None:
        """Show what the agent does in the turn's line, until cancelled."""
        await self._sleep(FIRST_LINE_S)
        shown = ""
        while True:
            text = progress_words.of(said.acts)
            if text != shown and await self._change_line(stage, claim, text):
                shown = text
            await self._sleep(REPEAT_LINE_S)

    async def _change_line(self, stage: Stage, claim: Claim, text: str) -> bool:
        """Change the line to *text*; whether the change is stored."""
        show = partial(progress.show, claim=claim, person=stage.person, text=text, now_ms=self._now_ms())
        try:
            is_changed: bool = await self._service.writer.run(show, durable=False)
        except apsw.Error:
            log.exception("turn.progress_not_written", turn=claim.token)
            return False
        self._service.kick("deliver")
        return is_changed

    async def _wait_for_change(self, said: SaidSoFar) -> None:
        """Wait until there is more of the answer, or until the draft has to be repeated."""
        waits = [asyncio.ensure_future(self._sleep(REPEAT_DRAFT_S)), asyncio.ensure_future(said.changed.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    async def _begin(self, stage: Stage, claim: Claim) -> int | None:
        """The id of the turn's draft, whose row is written before anybody sees it; None: it could not be written."""
        add = partial(
            drafts.add,
            turn=claim.token,
            agent=claim.agent,
            session_id=claim.session_id,
            channel=stage.person.channel,
            platform_id=stage.to.platform_id,
            now_ms=self._now_ms(),
        )
        try:
            return await self._service.writer.run(add, durable=False)
        except apsw.Error:
            log.exception("turn.draft_not_written", turn=claim.token)
            return None

    async def _call(self, work: Callable[[], Awaitable[None]], what: str) -> float | None:
        """Make one call; the seconds until the next one, or None to stop."""
        try:
            async with asyncio.timeout(_LIMIT_S):
                await work()
        except RetryableError as error:
            return max(0.001, (error.retry_after_ms or 0) / 1000)
        except TimeoutError:
            return 0.001
        except PostroomError as error:
            log.info("turn.not_shown", what=what, reason=str(error))
            return None
        except Exception:  # the batch boundary: a bug in an adapter must not end the turn
            log.exception("turn.not_shown", what=what)
            return None
        return 0.0


_OF_PEOPLE = ("chat", "chat-sdk")  # nobody waits for a task


def _watching(claim: Claim) -> Message | None:
    """The message of the person who sees the turn; None if nobody would see it, or others too. Pure."""
    person = mailbox.person_of(claim.asked[0])
    if person is None or person.chat_id is None or person.platform_id is None or person.kind not in _OF_PEOPLE:
        return None
    traits = registry.traits(person.channel)
    is_secret = content.private_to(person.content) is not None
    is_shown = traits.typing_every_ms is not None or traits.draft_every_ms is not None
    return person if is_shown and not is_secret else None


def _outgoing(person: Message) -> Outgoing:
    return Outgoing(
        response_id=0,
        part_index=0,
        platform_id=person.platform_id or "",
        thread_id=person.thread_id,
        reply_to=None,
        context=person.content.get("context") or {},
        asked_at_ms=person.created_at,
        is_first=True,
    )
