"""What routing, decisions and pairing decide to do about an event. ``apply.apply`` does it; an effect does nothing.

Some effects end differently because of what the database holds at that moment. Each of these says so in its docstring:
one statement finds or creates, or counts, and its outcome chooses what follows.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from shared.channels.base import Event
from shared.conversation.access.rules import Standing
from shared.conversation.routing.recipients import Recipient
from shared.core.content import AboutMessage, MessageContent
from shared.roster.wirings import WiringChange


class StoreMessage(msgspec.Struct, frozen=True):
    """Give an agent its message.

    Finds or creates the session, and inserts the message unless the agent has this event already: then the event counts
    as a duplicate.

    Attributes:
        heard: the event as the agent may read it; None: as it came.
        about: what the message does to an earlier one of the agent.
    """

    recipient: Recipient
    heard: Event | None = None
    about: AboutMessage | None = None


class ReplaceMessage(msgspec.Struct, frozen=True):
    """Give a message that still waits another text and other files: its sender edited it.

    A turn may have taken it meanwhile: then the change is context of its session, which *otherwise* stores.

    Attributes:
        row: of the message.
        content: what its row held.
        heard: the edited event as the agent may read it.
    """

    row: int
    content: MessageContent
    recipient: Recipient
    heard: Event
    otherwise: StoreMessage


class CancelMessage(msgspec.Struct, frozen=True):
    """No turn takes the message in this row any more; one that has ended stays as it is."""

    row: int
    reason: str


class HoldForSender(msgspec.Struct, frozen=True):
    """Hold the event until an approver decides whether its sender may talk to *agent*.

    Finds or creates the approval. Where no more may be held, the event is dropped for that reason instead.

    Attributes:
        is_told: whether the sender is told that the message waits, once for each new approval.
        heard: the event as the agent may read it; None: as it came.
    """

    agent: str
    is_told: bool = True
    heard: Event | None = None


class HoldForChat(msgspec.Struct, frozen=True):
    """Hold the event until an approver decides which agent answers in its chat; the sender is told that it waits.

    Finds or creates the chat and the approval. Where nobody can be asked, or no more may be held, neither is created
    and the event is dropped for that reason instead.

    Attributes:
        heard: the event as it may be held; None: as it came.
    """

    heard: Event | None = None


class Drop(msgspec.Struct, frozen=True):
    """Record why nothing comes of the event.

    Inserts the record unless the event has one already.

    Attributes:
        reason: a word, or ``word:detail``.
        if_new: applied only with a new record, so that a redelivery repeats none of it.
    """

    reason: str
    if_new: "tuple[Effect, ...]" = ()


class Once(msgspec.Struct, frozen=True):
    """Apply *then* unless an earlier delivery of the event did.

    The record with this *reason* remembers it. It is inserted unless the event has one already; nothing is dropped.
    """

    reason: str
    then: "tuple[Effect, ...]" = ()


class Say(msgspec.Struct, frozen=True):
    """Answer the event with a text of our own.

    Attributes:
        click: the ``context`` of a pressed button, which the answer acknowledges.
        creates_chat: find or create the chat; otherwise nothing is said where the chat is unknown.
        is_ahead: see ``notices.say``.
    """

    text: str
    click: Mapping[str, Any] | None = None
    creates_chat: bool = False
    is_ahead: bool = False


class ClearSession(msgspec.Struct, frozen=True):
    """Close the agent's session of this chat and thread, or the sender's private one, and start a new one."""

    agent: str
    chat_id: int | None
    thread_id: str | None
    private_to: str | None = None


class StoppedSession(msgspec.Struct, frozen=True):
    """The key of a session in which an agent is to stop, and whether the sender administers that agent."""

    agent: str
    chat_id: int | None
    thread_id: str | None
    private_to: str | None = None
    is_admin: bool = False


class Stop(msgspec.Struct, frozen=True):
    """Cancel what waits of the sender in these sessions, then what runs there; the answer says how much it was."""

    sessions: tuple[StoppedSession, ...]


class ForgetPerson(msgspec.Struct, frozen=True):
    """Delete what these agents remember from messages of the sender; the answer says how much it was."""

    agents: tuple[str, ...]


class TellWhy(msgspec.Struct, frozen=True):
    """Tell why a message has no answer: the one called *ref*, or the last one of the chat that has none.

    One of another chat is told about only where *sender* is an admin of its agent.
    """

    ref: str | None
    sender: Standing


class Wire(msgspec.Struct, frozen=True):
    """Let *agent* answer in the event's chat. Routing reads the new wiring back before it decides anything else.

    Finds or creates the chat; creates or changes the wiring.
    """

    agent: str
    changes: WiringChange | None = None


class ActivateChat(msgspec.Struct, frozen=True):
    """The chat is active again: a message from there proves that the bot is back."""


class RenameChat(msgspec.Struct, frozen=True):
    """The group has a new title. Destinations keep their names, because agents send by them."""

    title: str


class RememberDirectChat(msgspec.Struct, frozen=True):
    """The user is reached in this direct chat, on platforms that do not name such a chat after the user."""

    user_id: int


class Isolated(msgspec.Struct, frozen=True):
    """Apply *effect* for one agent. An error of this wiring undoes it and drops the event for this agent alone."""

    agent: str
    effect: "StoreMessage | HoldForSender | ReplaceMessage"


class WithinLimits(msgspec.Struct, frozen=True):
    """Apply *then* while the sender, and in a group the chat, have room this minute.

    Counts the event, and the count decides. Without room the event is dropped, except one that an agent has already:
    that is a redelivery.

    Attributes:
        counts_chat: the event uses up room of its group. An event whose sender may talk to no agent there does not.
        is_told: tell the sender, once a minute, when there is room again.
    """

    then: "tuple[Effect, ...]" = ()
    counts_chat: bool = True
    is_told: bool = True


class WithinRate(msgspec.Struct, frozen=True):
    """Apply *then* while the rate *key* has room. Counts once, and the count decides."""

    key: str
    per_minute: float
    burst: int
    then: "tuple[Effect, ...]"


Effect = (
    StoreMessage
    | ReplaceMessage
    | CancelMessage
    | HoldForSender
    | HoldForChat
    | Drop
    | Once
    | Say
    | ClearSession
    | Stop
    | ForgetPerson
    | TellWhy
    | Wire
    | ActivateChat
    | RenameChat
    | RememberDirectChat
    | Isolated
    | WithinLimits
    | WithinRate
)
