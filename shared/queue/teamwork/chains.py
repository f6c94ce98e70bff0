"""The limits of what agents write to each other.

::

    hops    how many messages between agents led to one       ends a ring
    total   how many messages one origin causes, in all       ends a star, whose messages multiply within few hops
    rate    how many messages a minute two agents exchange    slows down agents that name no cause

The sender of a message beyond a limit gets an error, and nothing of the message is stored. The caller rolls back, and
then ``chain_ends.tell`` tells the others. An answer to a question counts and is never refused, because each question
has at most one: whoever may ask may also be answered.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import apsw

from shared.core import hops
from shared.core.content import MessageContent
from shared.core.errors import WrongState
from shared.core.settings import Settings
from shared.db.access import rates
from shared.db.queue import chains
from shared.db.queue.message_row import Message


class MailLimits(NamedTuple):
    """The limits; *total* and *rate*: 0 means none.

    Attributes:
        files_mb: of files that wait for one agent, where its row has no limit of its own.
        total: messages because of one origin.
        rate: messages a minute between two agents, or of one agent to a room; all at once if need be.
    """

    hops: int = hops.LIMIT
    total: int = 100
    rate: int = 120
    files_mb: int = 1024

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """From the settings."""
        return cls(total=settings.chain_limit, rate=settings.pair_limit, files_mb=settings.files_limit_mb)


class MailRefused(WrongState):
    """A message between agents is beyond a limit, and was not sent.

    Attributes:
        origin: the chain.
        cause: the message because of which it was to be sent; None: the sender named none.
    """

    def __init__(
        self, reason: str, *, origin: str, cause: Message | None, sender: str, recipients: Sequence[str]
    ) -> None:
        super().__init__(f"{reason}; this message was not sent")
        self.reason = reason
        self.origin = origin
        self.cause = cause
        self.sender = sender
        self.recipients = tuple(recipients)


LIMITS = MailLimits()


def extend(
    conn: apsw.Connection,
    cause: Message | None,
    sender: str,
    recipients: Sequence[str],
    *,
    room: str | None = None,
    limits: MailLimits,
    now_ms: int,
) -> MessageContent:
    """Count a message of agent *sender* because of *cause*; the keys of its content that carry the chain on.

    Args:
        room: the team, where the recipients are the members of its room.

    Raises:
        MailRefused: the message is beyond a limit; the caller's transaction must roll back.
    """
    other = recipients[0] if room is None else f"#{room}"
    pair = rates.key("mail", *sorted((sender, other)))
    origin = pair if cause is None else hops.origin(cause.content, cause.message_id)

    def refused(reason: str) -> MailRefused:
        return MailRefused(reason, origin=origin, cause=cause, sender=sender, recipients=recipients)

    led_to_it = 0 if cause is None else hops.count(cause.content) + 1
    if led_to_it > limits.hops:
        raise refused(f"agents have written to each other {limits.hops} times because of one message")
    if cause is not None and not chains.count(
        conn, origin, (sender, *recipients), more=len(recipients), most=limits.total or None, now_ms=now_ms
    ):
        raise refused(f"agents have sent {limits.total} messages because of one message")
    if limits.rate and not rates.take(conn, pair, per_minute=limits.rate, burst=limits.rate, now_ms=now_ms).allowed:
        raise refused(f"{sender} and {other} have exchanged {limits.rate} messages within a minute")
    carried: MessageContent = {"hops": led_to_it}
    if cause is not None:
        carried["origin"] = origin
    return carried


def count_answer(conn: apsw.Connection, question: Message, *, now_ms: int) -> None:
    """Count the answer of the agent of *question* to the agent that asked."""
    origin = hops.origin(question.content, question.message_id)
    in_it = (question.agent, question.from_agent or "")
    chains.count(conn, origin, in_it, more=1, most=None, now_ms=now_ms)
