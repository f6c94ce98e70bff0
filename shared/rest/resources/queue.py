"""The queue: counts, and the messages that are pending, processing or dead."""

from collections.abc import Callable
from typing import Literal

import apsw
from pydantic import Field
from typing_extensions import TypedDict

from shared.core import clock
from shared.core.errors import NotFound, WrongState
from shared.db.queue import conversations, messages, responses
from shared.db.views import messages as message_views
from shared.db.views.messages import AgentQueue, DeadMessage, PendingMessage, ProcessingMessage
from shared.rest.http.common import OK, BatchQuery, Ok
from shared.rest.http.endpoint import Query, RequestRefused, endpoint
from shared.rest.http.service import Service


class QueueStatus(TypedDict):
    """How many messages are in each state.

    *completed* counts all that ever were. *outgoing*: responses that are not delivered yet. *activeConversations*:
    conversations between agents.
    """

    incoming: int
    queued: Literal[0]
    processing: int
    completed: int
    dead: int
    outgoing: int
    activeConversations: int


class KilledTurn(TypedDict):
    """The message is cancelled, and its turn is being stopped."""

    ok: Literal[True]
    agent: str
    processKilled: bool


class RetriedMessages(TypedDict):
    """The ids of the retried messages, oldest first; *next*: the ``after`` of the next call, null after the last."""

    ok: Literal[True]
    retried: list[str]
    next: int | None


class QueueQuery(Query):
    """*limit*: how many messages at most."""

    limit: int = Field(default=1000, ge=1, le=1000)


class PendingQuery(QueueQuery):
    """*agent*: only the messages of this agent."""

    agent: str | None = Field(default=None, max_length=64)


@endpoint("GET", "/api/queue/status")
async def queue_status(service: Service) -> QueueStatus:
    """Count the messages and responses by state."""
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
async def queue_agents(service: Service) -> list[AgentQueue]:
    """Count the pending and processing messages of each agent that has any."""
    return message_views.open_by_agent(service.reader)


@endpoint("GET", "/api/queue/pending")
async def queue_pending(service: Service, *, query: PendingQuery) -> list[PendingMessage]:
    """List the pending messages, scheduled ones included, oldest first."""
    return message_views.pending(service.reader, agent=query.agent, limit=query.limit)


@endpoint("GET", "/api/queue/processing")
async def queue_processing(service: Service, *, query: QueueQuery) -> list[ProcessingMessage]:
    """List the messages that turns are processing, oldest first."""
    return message_views.processing(service.reader, now_ms=clock.now_ms(), limit=query.limit)


@endpoint("POST", "/api/queue/processing/{id}/kill", {404: "no turn is processing a message with this id"})
async def kill(service: Service, *, id: int) -> KilledTurn:
    """Cancel a message that a turn is processing, and stop that turn. The message is not retried by itself."""

    def work(conn: apsw.Connection) -> str:
        if not message_views.is_processing(conn, id):
            raise RequestRefused(404, "processing message not found")
        return messages.cancel(conn, id, reason="killed over the API", now_ms=clock.now_ms()).agent

    agent = await service.change(work, "dispatch")
    return {"ok": True, "agent": agent, "processKilled": True}


@endpoint("GET", "/api/queue/dead")
async def queue_dead(service: Service, *, query: QueueQuery) -> list[DeadMessage]:
    """List the dead messages, newest first."""
    return message_views.dead(service.reader, limit=query.limit)


@endpoint("POST", "/api/queue/dead/{id}/retry", {404: "no dead message has this id"})
async def retry(service: Service, *, id: int) -> Ok:
    """Retry a dead message now, with all its attempts."""
    await _of_the_dead(service, lambda conn: messages.retry(conn, id, now_ms=clock.now_ms()))
    return OK


@endpoint("POST", "/api/queue/dead/retry")
async def retry_many(service: Service, *, query: BatchQuery) -> RetriedMessages:
    """Retry the oldest dead messages now, with all their attempts."""

    def work(conn: apsw.Connection) -> list[tuple[int, str]]:
        found = message_views.dead_after(conn, query.after, limit=query.limit)
        for row_id, _ in found:
            messages.retry(conn, row_id, now_ms=clock.now_ms())
        return found

    tried = await service.change(work, "dispatch")
    goes_on = len(tried) == query.limit
    return {"ok": True, "retried": [name for _, name in tried], "next": tried[-1][0] if goes_on else None}


@endpoint("DELETE", "/api/queue/dead/{id}", {404: "no dead message has this id"})
async def delete(service: Service, *, id: int) -> Ok:
    """Delete a dead message."""
    await _of_the_dead(service, lambda conn: messages.delete(conn, id, now_ms=clock.now_ms()))
    return OK


async def _of_the_dead(service: Service, work: Callable[[apsw.Connection], object]) -> None:
    try:
        await service.change(work, "dispatch")
    except (NotFound, WrongState):
        raise RequestRefused(404, "dead message not found") from None


ENDPOINTS = (
    *(queue_status, queue_agents, queue_pending, queue_processing),
    *(kill, queue_dead, retry_many, retry, delete),
)
