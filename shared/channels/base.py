"""The contract of a channel adapter: what it receives, and what it returns.

An adapter verifies, parses, renders, sends, and fetches files. It takes no decision about access, keeps no state
between calls, and never sees the database. One adapter is one file, with others beside it where it grows, and its line
in ``registry``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from shared.channels.incoming import (
    ASKS_FOR_A_TURN,
    SAID_IN_CONTEXT,
    Choice,
    Event,
    ForwardedFrom,
    Kind,
    Received,
    WebhookReply,
    WebhookRequest,
)
from shared.channels.outgoing import (
    BotRequest,
    Button,
    Evidence,
    FileKind,
    FileLimits,
    Outgoing,
    OutgoingFile,
    Part,
    Poll,
    PollLimits,
    Sent,
)
from shared.core.call_scopes import CallAllowance
from shared.core.errors import NotFetched, NotPossible
from shared.runtime.http_client import Client

__all__ = [
    "ASKS_FOR_A_TURN",
    "SAID_IN_CONTEXT",
    "BotManager",
    "BotRequest",
    "Button",
    "Channel",
    "Choice",
    "Event",
    "Evidence",
    "FileKind",
    "FileLimits",
    "ForwardedFrom",
    "Kind",
    "Outgoing",
    "OutgoingFile",
    "Part",
    "PlainChannel",
    "Poll",
    "PollLimits",
    "Received",
    "Registration",
    "Sent",
    "Traits",
    "WebhookReply",
    "WebhookRequest",
]


class Traits(msgspec.Struct, frozen=True):
    """Properties of a channel that are known without its settings. The defaults are those of the plainest channel.

    Attributes:
        has_threads: a conversation may have threads, and each thread can have its own session.
        direct_by_sender: a person's ``sender_id`` is also the id of the direct chat; else ``open_direct`` opens one.
        has_buttons: messages can carry buttons.
        has_edits: a message that was sent can get another text; ``Channel.send`` takes ``Outgoing.edits``.
        has_removals: ``Channel.remove`` works.
        has_reactions: ``Channel.react`` works.
        reactions: the emoji that ``Channel.react`` takes; empty: any.
        nearest_reaction: which of *reactions* says what another emoji says; it raises PermanentError where none does.
            None: only those are taken.
        wait_ms: how long the platform shows by itself that a command awaits its answer, until the answer or
            ``Channel.end_wait`` ends that; None: it shows nothing.
        typing_every_ms: how often ``Channel.typing`` is called while a turn runs; None: the channel shows none.
        draft_every_ms: the shortest pause between two calls of ``Channel.draft``; None: the channel has no drafts.
        files: what ``Channel.send`` takes of files; None: the channel sends none.
        fetch_bytes: the largest file that ``Channel.fetch`` gets; None: the channel has no files to fetch.
        manages_bots: a person can make a bot that ours manages; the adapter is a ``BotManager``.
        polls: the polls that ``Channel.send`` takes (``Outgoing.poll``); None: it takes none.
        has_stickers: ``Channel.send`` takes a sticker that came with a message (``Outgoing.sticker``).
        makes_topics: ``Channel.make_topic`` works.
        finds_sent: the platform can tell whether a part arrived: see ``Channel.find_sent``.
        allowances: the limits of the platform for sends to the chat with this ``platform_id``. A limit whose scope is
            not a chat counts the sends to all chats.
    """

    has_threads: bool
    direct_by_sender: bool
    has_buttons: bool
    has_edits: bool = False
    has_removals: bool = False
    has_reactions: bool = False
    reactions: tuple[str, ...] = ()
    nearest_reaction: Callable[[str], str] | None = None
    wait_ms: int | None = None
    typing_every_ms: int | None = None
    draft_every_ms: int | None = None
    files: FileLimits | None = None
    fetch_bytes: int | None = None
    manages_bots: bool = False
    polls: PollLimits | None = None
    has_stickers: bool = False
    makes_topics: bool = False
    finds_sent: bool = False
    allowances: Callable[[str], tuple[CallAllowance, ...]] = lambda _: ()


class Registration(msgspec.Struct, frozen=True):
    """What is registered at the platform for our bot: facts, without a judgement.

    Attributes:
        is_ours: the platform sends events to the address that we know; None: there is nothing to compare with.
        url: the registered address, without a secret; None: none is registered.
        backlog: events that wait at the platform; None where it doesn't tell.
        missing: kinds of events that we need and that aren't registered, in the platform's words.
        last_error: what the platform says about its last delivery that failed; None: nothing.
        last_error_at_ms: when that was, in ms UTC. It stays after the recovery: compare it with our last event.
        mend: what an operator does about *last_error*; None: connects the channel again.
        ours: the address that the account's settings name, without a secret; None: they name none.
    """

    is_ours: bool | None
    url: str | None = None
    backlog: int | None = None
    missing: tuple[str, ...] = ()
    last_error: str | None = None
    last_error_at_ms: int | None = None
    mend: str | None = None
    ours: str | None = None


class Channel(Protocol):
    """One account: one bot or app of one platform.

    A channel that can't do one of the optional operations (``react``, ``remove``, ``make_topic``, ``end_wait``,
    ``typing``, ``draft``, ``fetch``, ``registration``) says so in its ``Traits``, and raises ``NotPossible`` if it is
    called anyway.
    """

    @property
    def name(self) -> str:
        """The account's name, as in ``/webhooks/{account}`` and in the ``channel`` columns."""

    @property
    def platform(self) -> str:
        """The name of the platform. Ids of people are the same for all its accounts."""

    @property
    def unreadable(self) -> WebhookReply:
        """The answer to a signed body that can't be parsed. It makes the platform stop its redeliveries."""

    def receive(self, request: WebhookRequest, *, now_ms: int) -> Received:
        """Verify the raw bytes, then parse them.

        Raises:
            SignatureInvalid: the platform did not sign the request. The body was not parsed.
            PayloadInvalid: the body is signed but can't be parsed; the message says why.
        """

    def render(self, text: str, files: Sequence[OutgoingFile] = ()) -> tuple[Part, ...]:
        """Markdown and files to parts within the platform's limits, in the order in which they go out.

        Pure: the same text and files always give the same parts; the bytes of the files are not read. Files go out
        in their order: as albums where the platform has them, else singly. A text that fits in a caption is the caption
        of the first file; a longer text goes out before the files. A text without visible content makes no part. Files
        that can't be sent are removed from the parts later: ``send`` may get fewer files than *render* put together, or
        only the text of a part.
        """

    async def send(self, part: Part, to: Outgoing, client: Client, *, now_ms: int) -> Sent:
        """Send one part: all its files or none.

        A part goes to the chat and thread of *to* or fails; it never goes to another place. A part with files that
        edits a message (``Outgoing.edits``) replaces its files where the platform can do that, and else fails.

        Raises:
            RateLimited: the platform asks for a pause.
            NotSent: nothing left this machine, because the platform can't be reached.
            TokenRefused: the platform refuses our token.
            OutcomeUnknown: the request went out and no answer came back.
            RetryableError: nothing was sent; another attempt may succeed.
            PartTooLong: nothing was sent; smaller pieces of the part may be.
            FilesRefused: nothing was sent, because of the part's files; its text may be.
            PlaceGone: nothing was sent, because the topic, thread or channel is closed or gone.
            PermanentError: nothing was sent, and another attempt can't succeed.
        """

    async def find_sent(self, part: Part, to: Outgoing, client: Client, *, tried_from: int, now_ms: int) -> Evidence:
        """Whether *part* arrived, which was sent without an answer at *tried_from* (ms UTC) or later. No effect.

        Called only if ``Traits.finds_sent``, before the part is sent again.

        Raises:
            RateLimited, NotSent, TokenRefused, RetryableError: as for ``send``; it is called again later.
        """

    async def react(self, emoji: str | None, message_id: str, to: Outgoing, client: Client) -> None:
        """Set our reaction to the message with the platform's id *message_id* in the chat of *to*; None removes it.

        Safe to call twice: it is the same reaction. Where the platform or the chat allows other emoji only, the
        adapter may take the nearest one. A message that is gone is ``PermanentError``.

        Raises:
            RateLimited, NotSent, TokenRefused, PermanentError: as for ``send``.
            RetryableError: another attempt may succeed. An ``OutcomeUnknown`` says ``is_repeatable``.
        """

    async def remove(self, message_id: str, to: Outgoing, client: Client) -> None:
        """Remove our message with the platform's id *message_id* from the chat of *to*. Safe to call twice.

        Raises:
            RateLimited, NotSent, TokenRefused, PermanentError: as for ``send``; a message that is gone may be one.
            RetryableError: another attempt may succeed. An ``OutcomeUnknown`` says ``is_repeatable``.
        """

    async def make_topic(self, name: str, to: Outgoing, client: Client) -> str:
        """Make a topic, or a thread, called *name* in the chat of *to*; its ``thread_id``. Two calls make two.

        Raises:
            RateLimited, NotSent, TokenRefused, OutcomeUnknown, RetryableError, PermanentError: as for ``send``.
        """

    async def end_wait(self, to: Outgoing, client: Client, *, now_ms: int) -> None:
        """The event of *to* gets no answer: stop showing that it awaits one. Safe to call twice, and too late.

        Raises:
            RateLimited, NotSent, TokenRefused, PermanentError: as for ``send``.
            RetryableError: another attempt may succeed; an unknown outcome is one too, as a repetition does no harm.
        """

    async def typing(self, to: Outgoing, client: Client) -> None:
        """Show in the chat and thread of *to* that the agent works, for some seconds. Nobody waits for it.

        It is not called if the platform shows that by itself.

        Raises:
            PostroomError: the caller ignores it.
        """

    async def draft(self, text: str, draft_id: int, to: Outgoing, client: Client) -> None:
        """Show *text* as a preview that vanishes by itself, with a button that stops the turn.

        The same *draft_id*, a positive 31-bit number, changes the preview; the ``stop`` event has it in
        ``context["draft_id"]``. *text* is what the agent has said so far, as Markdown that may end anywhere; the
        adapter cuts what is too long, and sends plain text where marked-up text could be broken.

        Raises:
            PostroomError: the caller shows no more drafts in this turn; the answer still goes out.
        """

    async def fetch(self, attachment: Mapping[str, Any], client: Client, *, limit_bytes: int) -> bytes:
        """The bytes of an attachment of an ``Event``, as stored in ``messages.files``. Use ``downloads.download``.

        The address comes from the platform's own answer or is of one of its hosts; no redirect is followed.

        Raises:
            NotFetched: the file is not available; the message is a part of a sentence for people.
            RetryableError: it is not available now; another attempt may succeed.
        """

    async def registration(self, client: Client) -> Registration:
        """What is registered at the platform for our bot. Without any effect; safe to call twice.

        Raises:
            TokenRefused: the platform refuses our token.
            PostroomError: the platform can't be asked now.
        """

    async def open_direct(self, sender_id: str, client: Client) -> str:
        """The ``platform_id`` of the direct chat with a person, opened if there was none. Safe to call twice.

        Raises:
            RateLimited, NotSent, TokenRefused: as for ``send``.
            RetryableError: another attempt may succeed.
            PermanentError: the bot can't write to this person.
        """

    async def check_token(self, client: Client) -> None:
        """Ask the platform whether it accepts our token, without any effect. Safe to call twice.

        Raises:
            TokenRefused: it does not.
            PostroomError: the platform can't be asked now.
        """

    async def check_sending(self, client: Client) -> None:
        """Ask the platform whether it answers sends, by a send that it refuses. Returns if it does. No effect.

        Raises:
            PlatformDown, OutcomeUnknown: it does not.
        """


@runtime_checkable
class BotManager(Protocol):
    """A channel whose bot manages further bots, which people make for it."""

    async def take_bot(
        self, bot_id: str, account: str, client: Client, *, secret: str, menu: Mapping[str, str]
    ) -> Mapping[str, str]:
        """Fetch the bot's token, and let its webhook be that of *account*; its settings by field name.

        Safe to call twice. *secret* signs what the platform will send to that webhook; *menu*: the commands that the
        platform lists for people, with a line of help each.

        Raises:
            RateLimited, NotSent, TokenRefused: as for ``Channel.send``; the token is our own bot's.
            PostroomError: the bot can't be set up now; another attempt may succeed.
        """


class PlainChannel:
    """A base class for adapters, which then implement only the optional operations that their platform has."""

    async def react(self, emoji: str | None, message_id: str, to: Outgoing, client: Client) -> None:
        """See ``Channel.react``."""
        raise NotPossible("the channel has no reactions; nothing was done")

    async def remove(self, message_id: str, to: Outgoing, client: Client) -> None:
        """See ``Channel.remove``."""
        raise NotPossible("the channel can't remove a message; nothing was done")

    async def make_topic(self, name: str, to: Outgoing, client: Client) -> str:
        """See ``Channel.make_topic``."""
        raise NotPossible("the channel has no topics; nothing was sent")

    async def typing(self, to: Outgoing, client: Client) -> None:
        """See ``Channel.typing``."""
        raise NotPossible("the channel can't show that an agent works")

    async def draft(self, text: str, draft_id: int, to: Outgoing, client: Client) -> None:
        """See ``Channel.draft``."""
        raise NotPossible("the channel has no drafts")

    async def fetch(self, attachment: Mapping[str, Any], client: Client, *, limit_bytes: int) -> bytes:
        """See ``Channel.fetch``."""
        raise NotFetched("Postroom can't fetch files of this channel")

    async def registration(self, client: Client) -> Registration:
        """See ``Channel.registration``."""
        raise NotPossible("the channel can't show what is registered")

    async def check_sending(self, client: Client) -> None:
        """See ``Channel.check_sending``: nothing is asked."""

    async def open_direct(self, sender_id: str, client: Client) -> str:
        """See ``Channel.open_direct``: a person's id is the id of the direct chat."""
        return sender_id
