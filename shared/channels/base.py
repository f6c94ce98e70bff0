"""The contract of a channel adapter: what it receives, and what it returns.

An adapter verifies, parses, renders, sends, and fetches files. It takes no decision about access, keeps no state
between calls, and never sees the database. One adapter is one file, with others beside it where it grows, and its line
in ``registry``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from typing_extensions import TypedDict

from shared.core import content
from shared.core.content import MessagePiece, QuotedMessage
from shared.core.errors import NotFetched, NotPossible
from shared.runtime.http_client import Client

Kind = Literal[
    "message", "command", "edit", "delete", "callback", "modal", "autocomplete",
    "reaction", "membership", "migrate", "stop", "account", "ping", "ignore",
]  # fmt: skip
ASKS_FOR_A_TURN: frozenset[Kind] = frozenset({"message", "command", "modal"})
SAID_IN_CONTEXT = frozenset({"options", "focused", "value", "values", "fields", "forwarded_from"})


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """One webhook call as received. Header names are lower-case; *body* holds the raw bytes."""

    method: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


class ForwardedFrom(TypedDict):
    """The first sender of a forwarded message: the platform's id, or None where the platform hides the sender."""

    sender_id: str | None
    is_self: bool


@dataclass(frozen=True, slots=True)
class Event:
    """One event on a platform, in the terms that all channels share.

    Attributes:
        kind: the kind of event. Only kinds in ``ASKS_FOR_A_TURN`` ask an agent for a turn.
        event_key: the platform's id of the event, the same on every redelivery.
        sent_at_ms: when it happened, by the platform's own date, in ms UTC; None where the platform gave none.
        platform_id: the conversation's id; None where the platform gave none.
        chat_name: the group's name for display; empty where the platform gave none.
        thread_id: the topic or thread inside the conversation, or None.
        platform_message_id: the platform's id of the message; for ``edit``, ``delete`` and ``reaction`` that of the
            message that was edited, deleted or reacted to.
        sender_id: the platform's id of the sender, never a name; None where no single person caused the event.
        attachments: dicts with ``kind``; the other keys depend on it (``file_id url name mime size width ...``).
        is_mention: the sender addressed the bot: in a direct chat, by name, by a command, or by a reply to it.
        mention: the beginning of the text up to its second word, where the first names the bot; else empty.
        group_key: the same for the pieces of one message that the platform sends apart (an album); None: it is whole.
        pieces: of a joined album, in their order; routing sets it.
        first_sent_at_ms: of an ``edit``: when the message was sent first, by the platform's own date; else None.
        reply_to: the message that it replies to, or None.
        forwarded: who wrote the text and the attachments, where the sender passes on a message; else None.
        command: the command's name without a slash, when this is a command to this bot; as the platform gives it.
        context: JSON that the adapter needs later to answer, and facts of this platform alone. Secrets only sealed.
            What people wrote is under ``SAID_IN_CONTEXT`` alone, which our own answers leave out. Shared keys
            by kind: ``callback`` has the ``message_id`` of the message with the button, ``migrate`` has
            ``old_platform_id`` and ``new_platform_id``, ``membership`` has ``status``, ``reaction`` has the lists
            ``added`` and ``removed`` (emoji, or the platform's name of a custom one), ``stop`` has ``draft_id``,
            ``account`` has ``owner_id``, ``bot_id`` and ``username`` of a bot that a person gave to this one.
            Events that only their sender sees in a group have that person's id as ``receiver_user_id``.
        reason: why the event is ignored, as one word or ``word:detail``, never a person's text; else None.
    """

    kind: Kind
    event_key: str
    platform_id: str | None = None
    thread_id: str | None = None
    platform_message_id: str | None = None
    sender: str = ""
    sender_id: str | None = None
    text: str = ""
    attachments: tuple[dict[str, Any], ...] = ()
    is_mention: bool = False
    is_group: bool = False
    mention: str = ""
    reply_to: QuotedMessage | None = None
    forwarded: ForwardedFrom | None = None
    edited: bool = False
    command: str | None = None
    command_args: str | None = None
    context: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None
    chat_name: str = ""
    sent_at_ms: int | None = None
    group_key: str | None = None
    pieces: tuple[MessagePiece, ...] = ()
    first_sent_at_ms: int | None = None

    @property
    def place(self) -> str | None:
        """The display name of the conversation: the group's name, or the sender of a direct chat."""
        return (self.chat_name if self.is_group else self.sender) or None

    @property
    def private_to(self) -> str | None:
        """The one person who sees the event and may see its answer, by the platform's id; None: the whole chat."""
        return content.receiver(self.context)

    @property
    def asks_for_a_turn(self) -> bool:
        """Whether routing handles the event. Otherwise only *reason* is kept."""
        return self.kind in ASKS_FOR_A_TURN and self.reason is None


@dataclass(frozen=True, slots=True)
class WebhookReply:
    """The HTTP answer to the platform, sent once the events are stored."""

    status: int = 200
    body: bytes = b""
    content_type: str | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """One thing to choose while a person types a command: what the person sees, and what the command then holds."""

    label: str
    value: str


@dataclass(frozen=True, slots=True)
class Received:
    """A verified and parsed webhook: *events* to store, then *reply* to send.

    Attributes:
        not_taken: replaces *reply* when routing stored none of the events, for platforms where *reply* promises an
            answer; None where *reply* fits both cases.
        is_answered: *reply* is the whole answer, and the events are stored nowhere: a check, a form that opens.
        suggest: makes the reply of a question for choices (``autocomplete``), whose events are stored nowhere either.
        too_late: for a platform that waits for two seconds, and never repeats: the answer where the events are not
            stored by then, and nothing of them is kept. None: the platform waits, and repeats what fails.
    """

    events: tuple[Event, ...]
    reply: WebhookReply = WebhookReply()
    not_taken: WebhookReply | None = None
    is_answered: bool = False
    suggest: Callable[[Sequence[Choice]], WebhookReply] | None = None
    too_late: WebhookReply | None = None


FileKind = Literal["document", "photo", "video", "audio", "voice", "animation"]


@dataclass(frozen=True, slots=True)
class OutgoingFile:
    """A file to send. It stays in place until the response that names it is pruned.

    Attributes:
        path: where the bytes are.
        name: the safe name that the person sees.
        media_type: such as ``image/png``; by the file's content where that tells.
        size: in bytes, as when it was handed over.
        kind: how it should appear. A platform that can't show this kind shows a document.
    """

    path: Path
    name: str
    media_type: str
    size: int
    kind: FileKind = "document"


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of an answer that one platform message can hold: a text, or files (an album) with their caption.

    Attributes:
        text: the text as the person reads it, in the platform's plain or marked-up form; a caption where *files* are.
        html: the same as HTML, where the platform wants it separately; None otherwise.
        files: sent together, all or none.
    """

    text: str
    html: str | None = None
    files: tuple[OutgoingFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Button:
    """A button under a message.

    Attributes:
        label: the text on the button.
        token: comes back as ``Event.text`` when a person presses the button: 1 to 64 bytes. It grants no permission.
    """

    label: str
    token: str


@dataclass(frozen=True, slots=True)
class Sent:
    """A part that reached the platform.

    Attributes:
        message_id: the platform's id of the message, or of the first message of an album; None where it gives none.
        also: the ids of the further messages of an album, in order.
    """

    message_id: str | None
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileLimits:
    """The files that a channel takes in one message.

    Attributes:
        most_bytes: of one file.
        most_bytes_of: of one file of a kind with a limit of its own.
        most_in_album: files of one message; 1: each goes out as its own message.
    """

    most_bytes: int
    most_bytes_of: Mapping[FileKind, int] = field(default_factory=dict)
    most_in_album: int = 1

    def most(self, kind: FileKind) -> int:
        """The largest file of *kind*, in bytes."""
        return self.most_bytes_of.get(kind, self.most_bytes)


@dataclass(frozen=True, slots=True)
class Traits:
    """Properties of a channel that are known without its settings. The defaults are those of the plainest channel.

    Attributes:
        has_threads: a conversation may have threads, and each thread can have its own session.
        direct_by_sender: a person's ``sender_id`` is also the id of the direct chat; else ``open_direct`` opens one.
        has_buttons: messages can carry buttons.
        has_edits: a message that was sent can get another text; ``Channel.send`` takes ``Outgoing.edits``.
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
        finds_sent: the platform may show whether a part arrived; ``Channel.find_sent`` asks.
    """

    has_threads: bool
    direct_by_sender: bool
    has_buttons: bool
    has_edits: bool = False
    has_reactions: bool = False
    reactions: tuple[str, ...] = ()
    nearest_reaction: Callable[[str], str] | None = None
    wait_ms: int | None = None
    typing_every_ms: int | None = None
    draft_every_ms: int | None = None
    files: FileLimits | None = None
    fetch_bytes: int | None = None
    manages_bots: bool = False
    finds_sent: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a platform shows of a part that was sent without an answer.

    Attributes:
        verdict: ``absent``: it did not arrive; ``repeatable``: the platform recognises a repetition, so sending again
            is harmless; ``none``: the platform shows nothing either way.
        message_ids: of ``arrived``: the messages that can be this part, oldest first; at least one.
    """

    verdict: Literal["arrived", "absent", "repeatable", "none"]
    message_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Registration:
    """What is registered at the platform for our bot: facts, without a judgement.

    Attributes:
        is_ours: the platform sends events to the address that we know; None: there is nothing to compare with.
        url: the registered address, without a secret; None: none is registered.
        backlog: events that wait at the platform; None where it doesn't tell.
        missing: kinds of events that we need and that aren't registered, in the platform's words.
        last_error: what the platform says about its last delivery that failed; None: nothing.
        last_error_at_ms: when that was, in ms UTC. It stays after the recovery: compare it with our last event.
    """

    is_ours: bool | None
    url: str | None = None
    backlog: int | None = None
    missing: tuple[str, ...] = ()
    last_error: str | None = None
    last_error_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class BotRequest:
    """Asks a person to make a bot that ours will manage, with one tap.

    Attributes:
        request_id: a positive 31-bit number, unique in the message.
        name: the bot's name, as a suggestion.
        username: its user name, as a suggestion.
    """

    request_id: int
    name: str
    username: str


@dataclass(frozen=True, slots=True)
class Outgoing:
    """The destination of one part.

    Attributes:
        response_id: ``responses.id``; with *part_index* it identifies this part, the same on every retry.
        reply_to: the ``platform_message_id`` of the message to reply to, or None.
        context: the ``context`` of the event to answer; empty for proactive messages.
        asked_at_ms: when that event arrived, in ms UTC. Tokens that live for minutes are measured from it.
        is_first: this is the first part of the first response to that event.
        is_last: this is the last part of its response.
        buttons: the buttons under this part.
        edits: the platform's id of the message that this part replaces, with its buttons. If that message is gone, the
            adapter sends a new one.
        click: the ``context`` of the button press that this part answers. Without *edits*, only the person who pressed
            the button sees the part; where others read too, it fails rather than being sent to everybody.
        bot_request: offers the person to make a bot, where ``Traits.manages_bots``.
    """

    response_id: int
    part_index: int
    platform_id: str
    thread_id: str | None
    reply_to: str | None
    context: Mapping[str, Any]
    asked_at_ms: int
    is_first: bool
    is_last: bool = True
    buttons: tuple[Button, ...] = ()
    edits: str | None = None
    click: Mapping[str, Any] | None = None
    bot_request: BotRequest | None = None


class Channel(Protocol):
    """One account: one bot or app of one platform.

    A channel that can't do one of the optional operations (``react``, ``end_wait``, ``typing``, ``draft``, ``fetch``,
    ``registration``) says so in its ``Traits``, and raises ``NotPossible`` when it is asked all the same.
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
        in their order: as albums where the platform has them, else singly. A text that a caption holds is the caption
        of the first of them; a longer one goes out before them. A text without visible content gives no part of its
        own. What can't be sent is taken out of the parts afterwards: ``send`` may get fewer files than *render* put
        together, and a part whose files are all gone as its text alone.
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

        Asked only where ``Traits.finds_sent``, before the part is sent again.

        Raises:
            RateLimited, NotSent, TokenRefused, RetryableError: as for ``send``; it is asked again later.
        """

    async def react(self, emoji: str | None, message_id: str, to: Outgoing, client: Client) -> None:
        """Set our reaction to the message with the platform's id *message_id* in the chat of *to*; None removes it.

        Safe to call twice: it is the same reaction. Where the platform or the chat allows other emoji only, the
        adapter may take the nearest one. A message that is gone is ``PermanentError``.

        Raises:
            RateLimited, NotSent, TokenRefused, PermanentError: as for ``send``.
            RetryableError: another attempt may succeed. An ``OutcomeUnknown`` says ``is_repeatable``.
        """

    async def end_wait(self, to: Outgoing, client: Client, *, now_ms: int) -> None:
        """The event of *to* gets no answer: stop showing that it awaits one. Safe to call twice, and too late.

        Raises:
            RateLimited, NotSent, TokenRefused, PermanentError: as for ``send``.
            RetryableError: another attempt may succeed; an unknown outcome is one too, as a repetition does no harm.
        """

    async def typing(self, to: Outgoing, client: Client) -> None:
        """Show in the chat and thread of *to* that the agent works, for some seconds. Nobody waits for it.

        Nothing is called where the platform shows it by itself.

        Raises:
            PostroomError: the caller leaves it at that.
        """

    async def draft(self, text: str, draft_id: int, to: Outgoing, client: Client) -> None:
        """Show *text* as a preview that vanishes by itself, with a button that stops the turn.

        The same *draft_id*, a positive 31-bit number, changes the preview; the ``stop`` event has it in
        ``context["draft_id"]``. *text* is what the agent has said so far, as Markdown that may end anywhere; the
        adapter cuts what is too long, and sends plain text where marked-up text could be broken.

        Raises:
            PostroomError: the caller gives up the drafts of this turn; the answer itself goes out all the same.
        """

    async def fetch(self, attachment: Mapping[str, Any], client: Client, *, limit_bytes: int) -> bytes:
        """The bytes of an attachment of an ``Event``, as stored in ``messages.files``. Use ``downloads.download``.

        The address comes from the platform's own answer or is of one of its hosts; no redirect is followed.

        Raises:
            NotFetched: the file can't be had; the message is a part of a sentence for people.
            RetryableError: it can't be had now; another attempt may succeed.
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
    """What an adapter can derive from: then it has only the optional operations that its platform has."""

    async def react(self, emoji: str | None, message_id: str, to: Outgoing, client: Client) -> None:
        """See ``Channel.react``."""
        raise NotPossible("the channel has no reactions; nothing was done")

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
        raise NotPossible("the channel does not tell what is registered")

    async def open_direct(self, sender_id: str, client: Client) -> str:
        """See ``Channel.open_direct``: a person's id is the id of the direct chat."""
        return sender_id
