"""The contract between a platform and the rest: what a channel adapter is given, and what it gives back.

An adapter verifies, parses, renders and sends. It decides nothing about who may talk to whom, keeps nothing between
calls, and never sees the database. One adapter is one file, with others beside it where it grows, and its line in
``registry``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from shared.core.content import QuotedMessage
from shared.runtime.http_client import Client

Kind = Literal[
    "message", "command", "edit", "callback", "modal", "autocomplete",
    "reaction", "membership", "migrate", "stop", "ping", "ignore",
]  # fmt: skip
ASKS_FOR_A_TURN: frozenset[Kind] = frozenset({"message", "command"})


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """One webhook call as it came over the wire. Header names are lower-case; *body* is untouched."""

    method: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened on a platform, in the words that all channels share.

    Attributes:
        kind: what happened; only those in ``ASKS_FOR_A_TURN`` ask an agent for anything.
        event_key: the platform's own id of the event, the same on every redelivery.
        platform_id: the conversation's id; None where the platform did not say.
        chat_name: what people call a group, for people to read; empty where the platform did not say.
        thread_id: the topic or thread inside the conversation, or None.
        sender_id: who, by the platform's id and never by a name; None where nobody in particular did it.
        attachments: dicts with at least ``kind``; what else depends on it (``file_id url name mime size width ...``).
        is_mention: the bot was addressed: directly, by name, by a command, or by a reply to it.
        reply_to: the message that it replies to, with all keys, or None.
        command: the command's name without a slash, when this is a command to this bot; as the platform gives it.
        context: what the adapter needs later to answer, and what only this platform knows; JSON; secrets only sealed.
        reason: why nothing is done about it, one word or ``word:detail``, never a person's text; else None.
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
    reply_to: QuotedMessage | None = None
    edited: bool = False
    command: str | None = None
    command_args: str | None = None
    context: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None
    chat_name: str = ""

    @property
    def place(self) -> str | None:
        """What to call the conversation: a group by its own name, a direct chat by who writes there."""
        return (self.chat_name if self.is_group else self.sender) or None

    @property
    def asks_for_a_turn(self) -> bool:
        """Whether routing has anything to do; else only *reason* is worth keeping."""
        return self.kind in ASKS_FOR_A_TURN and self.reason is None


@dataclass(frozen=True, slots=True)
class WebhookReply:
    """What the platform is answered once the events are stored."""

    status: int = 200
    body: bytes = b""
    content_type: str | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """A verified webhook, read: *events* to store, then *reply* to answer.

    Attributes:
        not_taken: the answer instead of *reply* when routing stored none of the events, for platforms where *reply*
            promises an answer; None where it makes no difference.
    """

    events: tuple[Event, ...]
    reply: WebhookReply = WebhookReply()
    not_taken: WebhookReply | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of an answer that one platform message can hold.

    Attributes:
        text: what a person reads, in the platform's own plain or marked-up text.
        html: the same, marked up, where the platform wants that apart; None otherwise.
    """

    text: str
    html: str | None = None


@dataclass(frozen=True, slots=True)
class Button:
    """Something to press under a message.

    Attributes:
        label: what a person reads on it.
        token: what comes back when it is pressed, as ``Event.text``: 1 to 64 bytes. Whoever holds it proves nothing.
    """

    label: str
    token: str


@dataclass(frozen=True, slots=True)
class Traits:
    """What can be known of a channel without its settings.

    Attributes:
        has_threads: its conversations may have threads, each of which can be a session of its own.
        direct_by_sender: whoever has written is reached under their own id; else a direct chat has to be opened.
        has_buttons: messages can carry buttons.
    """

    has_threads: bool
    direct_by_sender: bool
    has_buttons: bool


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Where one part goes.

    Attributes:
        response_id: ``responses.id``; with *part_index* it names this part, the same on every retry.
        reply_to: the ``platform_message_id`` being answered, or None.
        context: the ``context`` of the event being answered; empty for proactive messages.
        asked_at_ms: when that event came in; tokens that live for minutes are measured from it.
        is_first: whether this is the first part of the first response to that event: nothing was said to it before.
        buttons: what stands under this part.
        edits: the platform's id of the message that this part replaces, buttons and all; one that is gone is sent anew.
        click: the ``context`` of the press of a button that this answers; without *edits* only who pressed sees it.
    """

    response_id: int
    part_index: int
    platform_id: str
    thread_id: str | None
    reply_to: str | None
    context: Mapping[str, Any]
    asked_at_ms: int
    is_first: bool
    buttons: tuple[Button, ...] = ()
    edits: str | None = None
    click: Mapping[str, Any] | None = None


class Channel(Protocol):
    """One platform."""

    @property
    def name(self) -> str:
        """The word in ``/webhooks/{channel}`` and in the ``channel`` columns."""

    @property
    def unreadable(self) -> WebhookReply:
        """The answer to a signed body that can't be read: one that makes the platform stop sending it."""

    def receive(self, request: WebhookRequest, *, now_ms: int) -> Received:
        """Verify the raw bytes, then parse them.

        Raises:
            SignatureInvalid: the platform did not sign this. Nothing of the body was looked at.
            PayloadInvalid: signed, but not readable; the message says why.
        """

    def render(self, text: str) -> tuple[Part, ...]:
        """Markdown to parts within the platform's limits. Pure; the same parts for the same text, always.

        A text with nothing to show gives no parts.
        """

    async def send(self, part: Part, to: Outgoing, client: Client, *, now_ms: int) -> str | None:
        """Send one part; the platform's id of the message, or None where it gives none.

        Raises:
            RateLimited: asked to wait.
            OutcomeUnknown: it went out and no answer came.
            RetryableError: it did not happen; worth another try.
            PermanentError: it did not happen and never will.
        """

    async def open_direct(self, sender_id: str, client: Client) -> str:
        """The ``platform_id`` of the direct chat with somebody, opened if there was none. Safe to call twice.

        Raises:
            RateLimited: asked to wait.
            RetryableError: worth another try.
            PermanentError: they can't be written to.
        """
