"""The queue: how much there is, what runs, what was given up."""

from collections.abc import Callable
from typing import Literal

import apsw
from pydantic import Field
from typing_extensions import TypedDict

from shared.core import clock
from shared.core.errors import NotFound, WrongState
from shared.db.queue import conversations, messages, responses
from shared.db.views import messages as message_views
from shared.rest.http.common import DONE, Done, Step
from shared.rest.http.endpoint import Query, Refused, endpoint
from shared.rest.http.service import Service


class Status(TypedDict):
    """How many messages wait and run; completed counts all that ever were; outgoing: responses not delivered yet.

    *activeConversations*: between agents.
    """

    incoming: int
    queued: Literal[0]
    processing: int
    completed: int
    dead: int
    outgoing: int
    activeConversations: int


class OfAgent(TypedDict):
    """What is open for one agent."""

    agent: str
    pending: int
    queued: Literal[0]
    processing: int


class Asked(TypedDict):
    """A message, and who asked which agent."""

    id: int
    messageId: str
    channel: str
    sender: str
    message: str
    agent: str


class Pending(Asked):
    """A message that waits for its turn: since when, not before when, and what went wrong, if it was tried."""

    retryCount: int
    lastError: str | None
    processAfter: int | None
    createdAt: int


class Processing(Asked):
    """A message that a turn has; its process is taken to be alive while the turn's lease runs. *duration* in ms."""

    status: Literal["processing"]
    processAlive: bool
    startedAt: int
    duration: int


class Killed(TypedDict):
    """The turn lost the message, and is being stopped."""

    ok: Literal[True]
    agent: str
    processKilled: bool


class DeadData(TypedDict):
    """What was asked."""

    channel: str
    sender: str
    senderId: str | None
    message: str
    messageId: str
    agent: str


class Dead(TypedDict):
    """A message that was given up, and why."""

    id: int
    data: DeadData
    failedReason: str | None
    attemptsMade: int
    timestamp: int


class Retried(TypedDict):
    """The messages that are tried again, oldest first; *next*: what to say as ``after``, or None: that were all."""

    ok: Literal[True]
    retried: list[str]
    next: int | None


class Many(Query):
    """How many at most."""

    limit: int = Field(default=1000, ge=1, le=1000)


class Waiting(Many):
    """Of which agent."""

    agent: str | None = Field(default=None, max_length=64)


@endpoint("GET", "/api/queue/status")
async def queue_status(service: Service) -> Status:
    """The queue in numbers."""
    found = messages.counts(service.reader)
    return {
        "incoming": found["pending"],
        "queued": 0,
        "processing": found["processing"],
        "completed": found["completed"],
        "dead": found["dead"],
        "outgoing": responses.open_count(service.reader),
        "activeConversations": conversations.open_count(service.reader),
    }


@endpoint("GET", "/api/queue/agents")
async def queue_agents(service: Service) -> list[OfAgent]:
    """The agents that have something open."""
    return message_views.open_by_agent(service.reader)


@endpoint("GET", "/api/queue/pending")
async def queue_pending(service: Service, *, query: Waiting) -> list[Pending]:
    """What waits, oldest first; what is scheduled too."""
    found: list[Pending] = message_views.pending(service.reader, agent=query.agent, limit=query.limit)
    return found


@endpoint("GET", "/api/queue/processing")
async def queue_processing(service: Service, *, query: Many) -> list[Processing]:
    """What runs, oldest first."""
    return message_views.processing(service.reader, now_ms=clock.now_ms(), limit=query.limit)


@endpoint("POST", "/api/queue/processing/{id}/kill", {404: "no turn has this message"})
async def kill(service: Service, *, id: int) -> Killed:
    """Take the message from its turn, and stop that turn. The message is cancelled: it is not run again by itself."""

    def work(conn: apsw.Connection) -> str:
        if not message_views.is_processing(conn, id):
            raise Refused(404, "processing message not found")
        return messages.cancel(conn, id, reason="killed over the API", now_ms=clock.now_ms()).agent

    agent = await service.change(work, "dispatch")
    return {"ok": True, "agent": agent, "processKilled": True}


@endpoint("GET", "/api/queue/dead")
async def queue_dead(service: Service, *, query: Many) -> list[Dead]:
    """What was given up, newest first."""
    return message_views.dead(service.reader, limit=query.limit)


@endpoint("POST", "/api/queue/dead/{id}/retry", {404: "no dead message has this id"})
async def retry(service: Service, *, id: int) -> Done:
    """Try it again now, with all its attempts before it."""
    await _of_the_dead(service, lambda conn: messages.retry(conn, id, now_ms=clock.now_ms()))
    return DONE


@endpoint("POST", "/api/queue/dead/retry")
async def retry_many(service: Service, *, query: Step) -> Retried:
    """Try the oldest of what was given up again now, with all their attempts before them."""

    def work(conn: apsw.Connection) -> list[tuple[int, str]]:
        found = message_views.dead_after(conn, query.after, limit=query.limit)
        for row_id, _ in found:
            messages.retry(conn, row_id, now_ms=clock.now_ms())
        return found

    tried = await service.change(work, "dispatch")
    goes_on = len(tried) == query.limit
    return {"ok": True, "retried": [name for _, name in tried], "next": tried[-1][0] if goes_on else None}


@endpoint("DELETE", "/api/queue/dead/{id}", {404: "no dead message has this id"})
async def delete(service: Service, *, id: int) -> Done:
    """Forget it."""
    await _of_the_dead(service, lambda conn: messages.delete(conn, id, now_ms=clock.now_ms()))
    return DONE


async def _of_the_dead(service: Service, work: Callable[[apsw.Connection], object]) -> None:
    try:
        await service.change(work, "dispatch")
    except (NotFound, WrongState):
        raise Refused(404, "dead message not found") from None


ENDPOINTS = (
    *(queue_status, queue_agents, queue_pending, queue_processing),
    *(kill, queue_dead, retry_many, retry, delete),
)
