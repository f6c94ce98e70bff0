"""What a channel adapter makes of a webhook: events, and the reply to the platform."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
from typing_extensions import TypedDict

from shared.core import content
from shared.core.content import MessagePiece, QuotedMessage

Kind = Literal[
    "message", "command", "edit", "delete", "callback", "modal", "autocomplete",
    "reaction", "membership", "migrate", "stop", "account", "ping", "ignore",
]  # fmt: skip
ASKS_FOR_A_TURN: frozenset[Kind] = frozenset({"message", "command", "modal"})
SAID_IN_CONTEXT = frozenset({"options", "focused", "value", "values", "fields", "forwarded_from"})


class WebhookRequest(msgspec.Struct, frozen=True):
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
        is_evidence: it came to the address that ``registration`` tells of; False: by another door, such as a relay.
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
    is_evidence: bool = True

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


class WebhookReply(msgspec.Struct, frozen=True):
    """The HTTP answer to the platform, sent once the events are stored."""

    status: int = 200
    body: bytes = b""
    content_type: str | None = None


class Choice(msgspec.Struct, frozen=True):
    """One thing to choose while a person types a command: what the person sees, and what the command then holds."""

    label: str
    value: str


class Received(msgspec.Struct, frozen=True):
    """A verified and parsed webhook: *events* to store, then *reply* to send.

    Attributes:
        not_taken: replaces *reply* when routing stored none of the events, for platforms where *reply* promises an
            answer; None where *reply* fits both cases.
        is_answered: *reply* is the whole answer, and the events are stored nowhere: a check, a form that opens.
        suggest: makes the reply of a question for choices (``autocomplete``), whose events are stored nowhere either.
        too_late: for a platform that waits for two seconds, and never repeats: the answer where the events are not
            stored by then, and no message of them is kept. None: the platform waits, and repeats what fails.
    """

    events: tuple[Event, ...]
    reply: WebhookReply = WebhookReply()
    not_taken: WebhookReply | None = None
    is_answered: bool = False
    suggest: Callable[[Sequence[Choice]], WebhookReply] | None = None
    too_late: WebhookReply | None = None
