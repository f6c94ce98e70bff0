"""From events to spans, in the order of the events. It knows no database: what it asks for, *rows* answers.

::

    message_received ──wait──> chain_step_start ──invoke_agent──> chain_step_done, message_dead, message_cancelled
                                   ^                │
                                   └──wait── message_retry
    response_ready ──send──> response_acked, response_dead

The root is the message, and ends with it. A span is exported when the event that ends it is read. What is open is kept
in memory, so a reader that begins anew begins at ``open_since``. A turn over several messages stands in the trace of
the first, linked to those of the others.

The attributes are those of OpenTelemetry's conventions for messaging and for generative models, and ids: no text, no
name and no argument of a person.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from infra.traces.span import ROOT, SpanNote, TraceSpan, Value
from shared.db.views.monitoring.traced import TracedCall, TracedEvent, TurnUsage

MOST_OPEN = 50_000  # of each kind: what is open for longer has no span of its wait
_ENDS = {"message_dead": "dead", "message_cancelled": "cancelled", "message_consumed": "consumed"}

K = TypeVar("K")
V = TypeVar("V")


class TracedRows(Protocol):
    """What rows say beside the events."""

    def made_at(self, row: str | int) -> int | None:
        """When a message (its public id) or a response (its row) was stored; None: it is pruned."""

    def usage(self, session: str, start_ms: int, end_ms: int) -> TurnUsage:
        """What the turn between the two instants took from models."""

    def tool_calls(self, turn: str) -> list[TracedCall]:
        """What a turn did with its tools."""


@dataclass(slots=True)
class _Waiting:
    """A message that is open: since when its present wait lasts."""

    event: int
    received_ms: int
    since_ms: int


@dataclass(slots=True)
class _Turn:
    """A turn that runs; *first*: its message."""

    event: int
    start_ms: int
    first: str
    batch: list[str]
    attempt: int


@dataclass(slots=True)
class _Sending:
    """A response that is open, with what happened to it."""

    event: int
    since_ms: int
    notes: list[SpanNote] = field(default_factory=list)


class Tracer:
    """Reads events, oldest first."""

    def __init__(self, rows: TracedRows) -> None:
        self._rows = rows
        self._messages: OrderedDict[str, _Waiting] = OrderedDict()
        self._turns: OrderedDict[str, _Turn] = OrderedDict()  # by session, which has one at a time
        self._responses: OrderedDict[int, _Sending] = OrderedDict()

    def open_since(self, now: int) -> int:
        """The id of the event before the oldest that something open began with; *now*: nothing is."""
        oldest = (
            next(iter(self._messages.values()), None),
            next(iter(self._turns.values()), None),
            next(iter(self._responses.values()), None),
        )
        return min([now, *(each.event - 1 for each in oldest if each is not None)])

    def read(self, event: TracedEvent) -> Iterator[TraceSpan]:
        """The spans that end with this event."""
        if event.response_id is not None:
            yield from self._of_response(event, event.response_id)
        elif event.message_id is not None:
            yield from self._of_message(event, event.message_id)

    def _of_message(self, event: TracedEvent, message: str) -> Iterator[TraceSpan]:
        match event.type:
            case "message_received":
                due_ms = event.data.get("process_after") or 0
                _put(self._messages, message, _Waiting(event.id, event.created_at, max(event.created_at, due_ms)))
                attributes = _messaging(event, message, "receive")
                at_ms = event.created_at
                yield TraceSpan(message, "receive", _name("receive", event), "consumer", at_ms, at_ms, ROOT, attributes)
            case "chain_step_start":
                yield from self._begin(event, message)
            case "chain_step_done":
                turn = self._turns.pop(event.session or message, None)
                if turn is not None:
                    yield from self._turn(event, turn, None)
                for each in event.data.get("batch", [message]):
                    yield from self._end(event, each, "completed")
            case "message_retry" | "message_released":
                yield from self._stop(event, message)
                waiting = self._messages.get(message)
                if waiting is not None:
                    waiting.since_ms = max(event.created_at, event.data.get("process_after") or 0)
            case "message_dead" | "message_cancelled" | "message_consumed":
                yield from self._stop(event, message)
                yield from self._end(event, message, _ENDS[event.type])

    def _begin(self, event: TracedEvent, message: str) -> Iterator[TraceSpan]:
        batch = event.data.get("batch", [message])
        turn = _Turn(event.id, event.created_at, message, batch, event.data.get("attempt", 1))
        _put(self._turns, event.session or message, turn)
        for each in batch:
            waiting = self._messages.get(each)
            if waiting is not None:
                attributes = _messaging(event, each, "process")
                start_ms = min(waiting.since_ms, event.created_at)
                key = f"wait {event.id}"
                yield TraceSpan(each, key, "wait", "internal", start_ms, event.created_at, ROOT, attributes)

    def _stop(self, event: TracedEvent, message: str) -> Iterator[TraceSpan]:
        """The turn that had the message, if there is one, ended without a result."""
        turn = self._turns.get(event.session or message)
        if turn is not None and message in turn.batch:
            del self._turns[event.session or message]
            yield from self._turn(event, turn, event.data.get("failure") or event.type)

    def _turn(self, event: TracedEvent, turn: _Turn, error: str | None) -> Iterator[TraceSpan]:
        key, agent = f"turn {turn.event}", event.agent or ""
        attributes: dict[str, Value] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.id": agent,
            "gen_ai.agent.name": agent,
            "messaging.batch.message_count": len(turn.batch),
            "postroom.attempt": turn.attempt,
        }
        calls: list[TracedCall] = []
        if event.session is not None:
            attributes["gen_ai.conversation.id"] = event.session
            used = self._rows.usage(event.session, turn.start_ms, event.created_at)
            if used.models:
                attributes |= {
                    "gen_ai.request.model": used.models[0],
                    "gen_ai.usage.input_tokens": used.input + used.cache_read,
                    "gen_ai.usage.output_tokens": used.output,
                    "postroom.model.requests": used.requests,
                }
            calls = [call for each in used.turns for call in self._rows.tool_calls(each)]
        end_ms = max(turn.start_ms, event.created_at)
        others = tuple(each for each in turn.batch if each != turn.first)
        name = f"invoke_agent {agent}"
        yield TraceSpan(
            turn.first, key, name, "internal", turn.start_ms, end_ms, ROOT, attributes, error=error, links=others
        )
        for call in calls:
            named: dict[str, Value] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": call.tool}
            of_call = f"{key} {call.key}"
            name = f"execute_tool {call.tool}"
            yield TraceSpan(turn.first, of_call, name, "internal", call.created_at, call.created_at, key, named)

    def _end(self, event: TracedEvent, message: str, outcome: str) -> Iterator[TraceSpan]:
        waiting = self._messages.pop(message, None)
        start_ms = self._rows.made_at(message) if waiting is None else waiting.received_ms
        if start_ms is None:  # it began before what is read, and is pruned
            return
        attributes = _messaging(event, message, "process") | {"postroom.outcome": outcome}
        if event.agent is not None:
            attributes["gen_ai.agent.id"] = event.agent
        error = (event.data.get("failure") or "dead") if outcome == "dead" else None
        end_ms = max(start_ms, event.created_at)
        yield TraceSpan(
            message, ROOT, _name("process", event), "consumer", start_ms, end_ms, None, attributes, error=error
        )

    def _of_response(self, event: TracedEvent, response: int) -> Iterator[TraceSpan]:
        match event.type:
            case "response_ready":
                due_ms = event.data.get("deliver_after") or 0
                _put(self._responses, response, _Sending(event.id, max(event.created_at, due_ms)))
            case "response_retry" | "response_outcome_unknown":
                if response in self._responses:
                    code = event.data.get("failure")
                    said: dict[str, Value] = {} if code is None else {"error.type": code}
                    note = SpanNote(event.type.removeprefix("response_"), event.created_at, said)
                    self._responses[response].notes.append(note)
            case "response_acked" | "response_dead":
                yield from self._sent(event, response)

    def _sent(self, event: TracedEvent, response: int) -> Iterator[TraceSpan]:
        sending = self._responses.pop(response, None)
        since_ms = self._rows.made_at(response) if sending is None else sending.since_ms
        if since_ms is None or event.message_id is None:
            return
        message = event.message_id
        is_dead = event.type == "response_dead"
        attributes = _messaging(event, message, "send") | {"postroom.response.id": response}
        start_ms = min(since_ms, event.created_at)
        parent = None if message.startswith("proactive_") else ROOT
        yield TraceSpan(
            message,
            f"send {response}",
            _name("send", event),
            "producer",
            start_ms,
            event.created_at,
            parent,
            attributes,
            error=(event.data.get("failure") or "dead") if is_dead else None,
            notes=tuple(sending.notes) if sending is not None else (),
        )


def _put(table: OrderedDict[K, V], key: K, value: V) -> None:
    table[key] = value
    table.move_to_end(key)
    if len(table) > MOST_OPEN:
        table.popitem(last=False)


def _name(operation: str, event: TracedEvent) -> str:
    return f"{operation} {event.channel}" if event.channel else operation


def _messaging(event: TracedEvent, message: str, operation: str) -> dict[str, Value]:
    found: dict[str, Value] = {
        "messaging.system": "postroom",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.message.id": message,
    }
    if event.channel is not None:
        found["messaging.destination.name"] = event.channel
    if event.session is not None:
        found["messaging.message.conversation_id"] = event.session
    return found
