"""Rows of ``events`` as frames of an event stream, under the names of both generations of TinyAGI's clients.

A row is one or more frames. The last frame has Postroom's own name for the event and carries the row's ``id:``. Where a
reader chose names, the last chosen frame carries it. So a reader that disconnects within a row gets all of the row
again, and loses nothing.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import apsw
import msgspec

from shared.db.queue import chat_messages
from shared.db.queue.events import RecordedEvent
from shared.db.views import stream
from shared.db.views.stream import StreamedMessage, StreamedResponse
from shared.queue.teamwork import rooms

_SHOWN_CHARACTERS = 4000  # of an answer; responseLength holds the length of the whole
_SHOWN_OF_MESSAGE = 120
_PRUNED_MESSAGE: StreamedMessage = {"row": 0, "sender": "", "message": "", "fromAgent": None}
_PRUNED_RESPONSE: StreamedResponse = {"sender": "", "message": "", "length": 0, "isAnswer": 0}

Frame = tuple[str, bytes]


class EventFrames(msgspec.Struct, frozen=True):
    """The frames of one event, as (name, text without the id)."""

    id: int
    named: tuple[Frame, ...]

    def frames(self, names: Collection[str] | None = None) -> bytes:
        """The frames called one of *names*, the last of them with the id; empty if there are none."""
        chosen = [text for name, text in self.named if names is None or name in names]
        if not chosen:
            return b""
        return b"".join(chosen[:-1]) + b"id: %d\n%s" % (self.id, chosen[-1])


def render(conn: apsw.Connection, found: Sequence[RecordedEvent]) -> list[EventFrames]:
    """The frames of these events; one query of each kind looks up the rows that all of them name."""
    named = _NamedRows(conn, found)
    return [
        EventFrames(event.id, tuple(_frame(event, name, data) for name, data in _names_and_data(event, named)))
        for event in found
    ]


def _frame(event: RecordedEvent, name: str, data: dict[str, Any]) -> Frame:
    text = json.dumps({"type": name, "timestamp": event.created_at, **data})
    return name, f"event: {name}\ndata: {text}\n\n".encode()


class _NamedRows:
    """The rows that a batch of events names."""

    def __init__(self, conn: apsw.Connection, found: Sequence[RecordedEvent]) -> None:
        done = [event for event in found if event.type == "chain_step_done"]
        message_ids = {event.message_id for event in found if event.type in _OF_MESSAGES and event.message_id}
        message_ids.update(message_id for event in done for message_id in event.data.get("batch", ()))
        response_ids = {event.response_id for event in found if event.type == "response_ready" and event.response_id}
        lines = {event.data["line"] for event in found if event.type == "room_line" and "line" in event.data}
        self.agents = stream.agents(conn) if found else {}
        self.messages = stream.messages(conn, message_ids, characters=_SHOWN_CHARACTERS) if message_ids else {}
        self.lines = stream.lines(conn, lines, characters=_SHOWN_CHARACTERS) if lines else {}
        self.responses = stream.responses(conn, response_ids, characters=_SHOWN_CHARACTERS) if response_ids else {}
        self.answers = {event.id: self._answer(conn, event) for event in done}

    def engine(self, agent: str | None) -> dict[str, Any]:
        """The agent and its engine; an agent that was deleted has its id as its name."""
        deleted = {"agentName": agent, "provider": "", "model": ""}
        return {"agentId": agent, **(self.agents.get(agent or "") or deleted)}

    def agent(self, agent: str | None) -> dict[str, Any]:
        """The agent's id and name."""
        return {"agentId": agent, "agentName": self.engine(agent)["agentName"]}

    def _answer(self, conn: apsw.Connection, event: RecordedEvent) -> tuple[str, int]:
        """The beginning of what the turn said, and the length of the whole."""
        batch = [self.messages[each]["row"] for each in event.data.get("batch", ()) if each in self.messages]
        from_ms = event.created_at - max(0, event.data.get("answers", 1) - 1)  # they are a millisecond apart
        answers = stream.answers(conn, batch, from_ms=from_ms, until_ms=event.created_at, characters=_SHOWN_CHARACTERS)
        return "\n\n".join(text for text, _ in answers)[:_SHOWN_CHARACTERS], sum(length for _, length in answers)


def _names_and_data(event: RecordedEvent, named: _NamedRows) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and data of each frame of the event, Postroom's own last."""
    agent = named.agent(event.agent)
    message = named.messages.get(event.message_id or "", _PRUNED_MESSAGE)
    writer = message["fromAgent"]
    own: dict[str, Any] = {}
    match event.type:
        case "message_received" if event.channel == rooms.CHANNEL:
            pass  # each member of the team has one; the event room_line announces the line once
        case "message_received" if writer is not None:
            yield from _said(event, named.agent(writer), message["message"], sender=writer, is_of_team=True)
        case "message_received":
            own = {"sender": message["sender"], "message": message["message"][:_SHOWN_OF_MESSAGE]}
            stored = {"messageId": event.message_id, "agent": event.agent, "channel": event.channel, **own}
            yield "message_enqueued", stored
            yield "message:incoming", stored
            yield "agent_routed", {**named.engine(event.agent), "isTeamRouted": False}
        case "room_line" if event.data.get("from", chat_messages.USER) != chat_messages.USER:
            text = named.lines.get(event.data.get("line", 0), "")
            yield from _said(event, named.agent(event.data["from"]), text, sender=event.data["from"], is_of_team=True)
        case "chain_step_start":
            own = {**agent, "fromAgent": writer}
            yield "agent:invoke", {**own, "messageId": event.message_id}
        case "chain_step_done":
            text, length = named.answers[event.id]
            own = {**agent, "responseLength": length, "responseText": text}
            yield from _said(event, agent, text, sender=message["sender"], is_of_team=writer is not None)
        case "response_ready":
            response = named.responses.get(event.response_id or 0, _PRUNED_RESPONSE)
            own = {
                "sender": response["sender"],
                "agentId": event.agent,
                "responseLength": response["length"],
                "responseText": response["message"],
            }
            yield from _responded(event, agent, response)
            yield "message:done", {"channel": event.channel, **own, "messageId": event.message_id}
        case type_ if type_ in _ENDS:
            yield from _said(event, agent, "", sender=message["sender"], is_of_team=writer is not None)
        case "chain_handoff":
            own = {"fromAgent": event.data.get("from_agent"), "toAgent": event.agent, "teamId": None}
            yield "agent:mention", own
    yield event.type, _own(event, own)


def _responded(
    event: RecordedEvent, agent: dict[str, Any], response: StreamedResponse
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The frame of an answer, which an empty response is not."""
    if event.agent is not None and response["isAnswer"] and response["message"]:
        yield "agent:progress", {**agent, "text": response["message"], "messageId": event.message_id}


def _said(
    event: RecordedEvent, agent: dict[str, Any], text: str, *, sender: str, is_of_team: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The frames of what an agent said. The end of a turn that said nothing ends "processing" on TinyAGI's pages."""
    is_end = event.type in _ENDS and (event.type != "message_cancelled" or event.data.get("running", False))
    data = {
        **agent,
        "role": "assistant",
        "channel": event.channel,
        "sender": sender,
        "messageId": event.message_id,
        "content": text or _ENDS.get(event.type, ""),
        "isTeamMessage": is_of_team,
    }
    if text:
        yield "agent_message", data
    if text or is_end:
        yield "agent:response", data


def _own(event: RecordedEvent, more: dict[str, Any]) -> dict[str, Any]:
    facts = {
        "messageId": event.message_id,
        "responseId": event.response_id,
        "agent": event.agent,
        "channel": event.channel,
        **event.data,
    }
    return {**{key: value for key, value in facts.items() if value is not None}, **more}


_ENDS = {
    "chain_step_done": "(The turn is over.)",
    "message_retry": "(The turn failed, and will be tried again.)",
    "message_dead": "(The turn failed.)",
    "message_released": "(The turn was interrupted, and will be run again.)",
    "message_cancelled": "(The turn was stopped.)",
}
_OF_MESSAGES = ("message_received", "chain_step_start", *_ENDS)
