"""The limits of what agents write to each other.

::

    hops    how many messages between agents led to one       ends a ring
    total   how many messages one origin causes, in all       ends a star, whose messages multiply within few hops
    rate    how many messages a minute two agents exchange    slows down agents that name no cause
    cost    what all turns because of one origin have used    ends what few but costly turns would go on with

The sender of a message beyond a limit gets an error, and nothing of the message is stored. The caller rolls back; then
``chain_ends.tell`` informs the others. An answer to a question counts, but is never refused. A question may have one
answer, and one more for each answer that its agent got because of it.
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
from shared.db.spending import usage


class MailLimits(NamedTuple):
    """The limits; *total* and *rate*: 0 means none.

    Attributes:
        dollars, tokens: of the models, for all turns because of one origin; 0 means none.
        files_mb: of files that wait for one agent, where its row has no limit of its own.
        total: messages because of one origin.
        rate: messages a minute between two agents, or from one agent to a room; a whole minute's number may come at
        once.
    """

    hops: int = hops.LIMIT
    total: int = 100
    rate: int = 120
    files_mb: int = 1024
    dollars: float = 0.0
    tokens: int = 0

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """From the settings."""
        return cls(
            total=settings.chain_limit,
            rate=settings.pair_limit,
            files_mb=settings.files_limit_mb,
            dollars=settings.chain_dollars,
            tokens=settings.chain_tokens,
        )


class MailRefused(WrongState):
    """A message between agents is beyond a limit, and was not sent.

    Attributes:
        origin: the chain.
        cause: the message that it follows from; None: the sender named none.
        is_cost: the chain has reached its cost limit, so no message that starts a turn may tell anybody.
    """

    def __init__(
        self,
        reason: str,
        *,
        origin: str,
        cause: Message | None,
        sender: str,
        recipients: Sequence[str],
        is_cost: bool = False,
    ) -> None:
        super().__init__(f"{reason}; this message was not sent")
        self.reason = reason
        self.origin = origin
        self.cause = cause
        self.sender = sender
        self.recipients = tuple(recipients)
        self.is_cost = is_cost


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
    """Count a message of agent *sender* that follows from *cause*; the keys of its content that continue the chain.

    Args:
        room: the team, where the recipients are the members of its room.

    Raises:
        MailRefused: the message is beyond a limit; the caller's transaction must roll back.
    """
    other = recipients[0] if room is None else f"#{room}"
    pair = rates.key("mail", *sorted((sender, other)))
    origin = pair if cause is None else hops.origin(cause.content, cause.message_id)

    def refused(reason: str, *, is_cost: bool = False) -> MailRefused:
        return MailRefused(reason, origin=origin, cause=cause, sender=sender, recipients=recipients, is_cost=is_cost)

    if too_costly := cost_reached(conn, origin, limits):
        raise refused(too_costly, is_cost=True)

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


def cost_reached(conn: apsw.Connection, origin: str, limits: MailLimits) -> str | None:
    """The part of a sentence that says that the chain has reached its cost limit; None: it has not."""
    if not (limits.dollars or limits.tokens):
        return None
    spent = usage.spent_on(conn, origin)
    work = "the agents' work because of one message has"
    if limits.dollars and spent.money >= limits.dollars * 1_000_000:
        return f"{work} cost ${spent.money / 1_000_000:.2f}, and ${limits.dollars:.2f} is the most"
    if limits.tokens and spent.tokens >= limits.tokens:
        return f"{work} taken {spent.tokens:,} tokens, and {limits.tokens:,} is the most"
    return None


def too_costly(conn: apsw.Connection, asked: Sequence[Message], limits: MailLimits) -> str | None:
    """Why no turn for these messages may begin: one belongs to a chain at its cost limit. None: it may.

    A person's message always gets its turn.
    """
    of_agents = [each for each in asked if hops.count(each.content) or each.content.get("is_answer")]
    reached = (cost_reached(conn, hops.origin(each.content, each.message_id), limits) for each in of_agents)
    return next(filter(None, reached), None)


def count_answer(conn: apsw.Connection, question: Message, *, now_ms: int) -> None:
    """Count the answer of the agent of *question* to the agent that asked."""
    origin = hops.origin(question.content, question.message_id)
    in_it = (question.agent, question.from_agent or "")
    chains.count(conn, origin, in_it, more=1, most=None, now_ms=now_ms)
