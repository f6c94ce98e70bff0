"""The queue: counts, and the messages that are pending, processing or dead."""

from collections.abc import Callable
from typing import Literal

import apsw
from pydantic import Field
from starlette.requests import Request
from typing_extensions import TypedDict

from shared.core.errors import NotFound, WrongState
from shared.core.time import clock
from shared.db.queue import conversations, messages, responses
from shared.db.queue.messages import MessageRef
from shared.db.views import messages as message_views
from shared.db.views import why, why_sentences
from shared.db.views.messages import AgentQueue, DeadMessage, PendingMessage, ProcessingMessage
from shared.db.views.why_sentences import Reason, Why
from shared.queue import cancellations
from shared.rest.http.common import OK, BatchQuery, Ok
from shared.rest.http.endpoint import Query, RequestRefused, endpoint
from shared.rest.http.service import Service

_NOT_DEAD = "dead message not found"


class QueueStatus(TypedDict):
    """How many messages are in each state. What is planned for later is in none.

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


class WaitingMessage(PendingMessage, Reason):
    """A message that waits, and why: *state*, *reason*, *until* as in ``GET /api/why``."""


class DeadMessageView(DeadMessage, Reason):
    """A dead message, and why: *state*, *reason*, *until* as in ``GET /api/why``."""


class PendingQuery(QueueQuery):
    """*agent*: only the messages of this agent."""

    agent: str | None = Field(default=None, max_length=64)


@endpoint("GET", "/api/queue/status")
async def queue_status(service: Service) -> QueueStatus:
    """Count the messages and responses by state."""
    found = messages.counts(service.reader)
    now_ms = service.now_ms()
    planned = messages.planned_by_agent(service.reader, now_ms=now_ms)
    return {
        "incoming": max(0, found["pending"] - sum(planned.values())),
        "queued": 0,
        "processing": found["processing"],
        "completed": found["completed"],
        "dead": found["dead"],
        "outgoing": responses.open_count(service.reader, now_ms=now_ms),
        "activeConversations": conversations.open_count(service.reader),
    }


@endpoint("GET", "/api/queue/agents")
async def queue_agents(service: Service) -> list[AgentQueue]:
    """Count the pending and processing messages of each agent that has any; not those that are planned for later."""
    planned = messages.planned_by_agent(service.reader, now_ms=service.now_ms())
    found = message_views.open_by_agent(service.reader)
    for each in found:
        each["pending"] -= min(each["pending"], planned.get(each["agent"], 0))
    return [each for each in found if each["pending"] or each["processing"]]


@endpoint("GET", "/api/queue/pending", {503: "too many long reads run at once: try again later"})
async def queue_pending(service: Service, *, query: PendingQuery, request: Request) -> list[WaitingMessage]:
    """List the pending messages, scheduled ones included, oldest first, each with what it waits for."""
    now_ms = service.now_ms()
    return await service.background_reads.read(lambda conn: _waiting(conn, query, now_ms=now_ms), request.receive)


def _waiting(conn: apsw.Connection, query: PendingQuery, *, now_ms: int) -> list[WaitingMessage]:
    found = message_views.pending(conn, agent=query.agent, limit=query.limit)
    reasons = [(each, _why(conn, each["id"], now_ms)) for each in found]
    return [{**each, **because.as_fields()} for each, because in reasons if because is not None]


def _why(conn: apsw.Connection, row: int, now_ms: int) -> Why | None:
    facts = why.message(conn, row, now_ms=now_ms)
    return None if facts is None else why_sentences.of_message(facts, now_ms=now_ms)


@endpoint("GET", "/api/queue/processing")
async def queue_processing(service: Service, *, query: QueueQuery) -> list[ProcessingMessage]:
    """List the messages that turns are processing, oldest first."""
    return message_views.processing(service.reader, now_ms=service.now_ms(), limit=query.limit)


@endpoint("POST", "/api/queue/processing/{id}/kill", {404: "no turn is processing a message with this id"})
async def kill(service: Service, *, id: int) -> KilledTurn:
    """Cancel a message that a turn is processing, and stop that turn. The message is not retried by itself."""

    def work(conn: apsw.Connection) -> MessageRef:
        return cancellations.cancel(conn, id, reason="killed over the API", is_running=True, now_ms=clock.now_ms())

    killed = await _change(service, work, otherwise="processing message not found")
    return {"ok": True, "agent": killed.agent, "processKilled": True}


@endpoint("GET", "/api/queue/dead", {503: "too many long reads run at once: try again later"})
async def queue_dead(service: Service, *, query: QueueQuery, request: Request) -> list[DeadMessageView]:
    """List the dead messages, newest first, each with the reason."""
    now_ms = service.now_ms()
    return await service.background_reads.read(lambda conn: _dead(conn, query, now_ms=now_ms), request.receive)


def _dead(conn: apsw.Connection, query: QueueQuery, *, now_ms: int) -> list[DeadMessageView]:
    found = message_views.dead(conn, limit=query.limit)
    reasons = [(each, _why(conn, each["id"], now_ms)) for each in found]
    return [{**each, **because.as_fields()} for each, because in reasons if because is not None]


@endpoint("POST", "/api/queue/dead/{id}/retry", {404: "no dead message has this id"})
async def retry(service: Service, *, id: int) -> Ok:
    """Retry a dead message now. Its attempts are counted from zero."""
    await _change(service, lambda conn: messages.retry(conn, id, now_ms=clock.now_ms()), otherwise=_NOT_DEAD)
    return OK


@endpoint("POST", "/api/queue/dead/retry")
async def retry_many(service: Service, *, query: BatchQuery) -> RetriedMessages:
    """Retry the oldest dead messages now. Their attempts are counted from zero."""

    def work(conn: apsw.Connection) -> list[MessageRef]:
        return messages.retry_many(conn, after=query.after, limit=query.limit, now_ms=clock.now_ms())

    retried = await service.change(work, "dispatch")
    following = retried[-1].id if len(retried) == query.limit else None
    return {"ok": True, "retried": [each.message_id for each in retried], "next": following}


@endpoint("DELETE", "/api/queue/dead/{id}", {404: "no dead message has this id"})
async def delete(service: Service, *, id: int) -> Ok:
    """Delete a dead message."""
    await _change(service, lambda conn: messages.delete(conn, id, now_ms=clock.now_ms()), otherwise=_NOT_DEAD)
    return OK


async def _change(service: Service, work: Callable[[apsw.Connection], MessageRef], *, otherwise: str) -> MessageRef:
    """Run *work*; a missing message, or one in another state, is refused with TinyAGI's sentence *otherwise*."""
    try:
        return await service.change(work, "dispatch")
    except (NotFound, WrongState):
        raise RequestRefused(404, otherwise) from None


ENDPOINTS = (
    *(queue_status, queue_agents, queue_pending, queue_processing),
    *(kill, queue_dead, retry_many, retry, delete),
)
