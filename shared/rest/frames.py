"""Rows of ``events`` as frames of an event stream, under the names of both generations of TinyAGI's clients.

A row is one or more frames. The last of them is ours and carries the row's ``id:``, and so does the last that a
reader's choice of names leaves: whoever breaks off within a row gets the whole row again, and nothing is lost.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from shared.db import views
from shared.db.events import Event

_SHOWN_CHARACTERS = 4000  # of an answer; its whole length is told beside it
_SHOWN_OF_MESSAGE = 120

Frame = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class Row:
    """One event: its frames as (name, text without the id)."""

    id: int
    named: tuple[Frame, ...]

    def frames(self, names: Collection[str] | None = None) -> bytes:
        """The frames called one of *names*, the last with the id; nothing if there is none."""
        chosen = [text for name, text in self.named if names is None or name in names]
        if not chosen:
            return b""
        return b"".join(chosen[:-1]) + b"id: %d\n%s" % (self.id, chosen[-1])


def render(conn: apsw.Connection, found: Sequence[Event]) -> list[Row]:
    """The frames of all of *found*; what they tell beyond the events is looked up at once for all."""
    facts = _Facts(conn, found)
    return [Row(event.id, tuple(_frame(event, name, data) for name, data in _told(event, facts))) for event in found]


def _frame(event: Event, name: str, data: dict[str, Any]) -> Frame:
    text = json.dumps({"type": name, "timestamp": event.created_at, **data})
    return name, f"event: {name}\ndata: {text}\n\n".encode()


class _Facts:
    """The rows that a batch of events speaks of."""

    def __init__(self, conn: apsw.Connection, found: Sequence[Event]) -> None:
        done = [event for event in found if event.type == "chain_step_done"]
        asked = {event.message_id for event in found if event.type in _OF_MESSAGES and event.message_id}
        asked.update(message_id for event in done for message_id in event.data.get("batch", ()))
        said = {event.response_id for event in found if event.type == "response_ready" and event.response_id}
        self.agents = views.agents_told(conn) if found else {}
        self.messages = views.messages_told(conn, asked, characters=_SHOWN_OF_MESSAGE) if asked else {}
        self.responses = views.responses_told(conn, said, characters=_SHOWN_CHARACTERS) if said else {}
        self.answers = {event.id: self._answer(conn, event) for event in done}

    def _answer(self, conn: apsw.Connection, event: Event) -> tuple[str, int]:
        """What the turn said, as far as it is shown, and how long it is in whole."""
        batch = [self.messages[each]["row"] for each in event.data.get("batch", ()) if each in self.messages]
        said = views.answers_of_turn(conn, batch, at_ms=event.created_at, characters=_SHOWN_CHARACTERS)
        return "\n\n".join(text for text, _ in said)[:_SHOWN_CHARACTERS], sum(length for _, length in said)


def _told(event: Event, facts: _Facts) -> Iterator[tuple[str, dict[str, Any]]]:
    """The names and data under which the event is told, ours last."""
    engine = facts.agents.get(event.agent or "", {"agentName": event.agent, "provider": "", "model": ""})
    agent = {"agentId": event.agent, "agentName": engine["agentName"]}
    message = facts.messages.get(event.message_id or "", {})
    own: dict[str, Any] = {}
    match event.type:
        case "message_received" if message.get("fromAgent") is None:
            asked = {key: message.get(key, "") for key in ("sender", "message")}
            known = {"messageId": event.message_id, "agent": event.agent, "channel": event.channel, **asked}
            yield "message_enqueued", known
            yield "message:incoming", known
            yield "agent_routed", {"agentId": event.agent, **engine, "isTeamRouted": False}
            own = asked
        case "chain_step_start":
            own = {**agent, "fromAgent": message.get("fromAgent")}
            yield "agent:invoke", {**own, "messageId": event.message_id}
        case "chain_step_done":
            text, length = facts.answers[event.id]
            own = {**agent, "responseLength": length, "responseText": text}
            said = {
                **agent,
                "role": "assistant",
                "channel": event.channel,
                "sender": message.get("sender", ""),
                "messageId": event.message_id,
                "content": text,
                "isTeamMessage": message.get("fromAgent") is not None,
            }
            yield "agent_message", said
            yield "agent:response", said
        case "response_ready":
            response = facts.responses.get(event.response_id or 0, {})
            text = response.get("message", "")
            own = {
                "sender": response.get("sender", ""),
                "agentId": event.agent,
                "responseLength": response.get("length", 0),
                "responseText": text,
            }
            if event.agent is not None and response.get("isAnswer"):
                yield "agent:progress", {**agent, "text": text, "messageId": event.message_id}
            yield "message:done", {"channel": event.channel, **own, "messageId": event.message_id}
        case "chain_handoff":
            own = {"fromAgent": event.data.get("from_agent"), "toAgent": event.agent, "teamId": event.data.get("team")}
            yield "agent:mention", own
    yield event.type, _own(event, own)


def _own(event: Event, more: dict[str, Any]) -> dict[str, Any]:
    facts = {
        "messageId": event.message_id,
        "responseId": event.response_id,
        "agent": event.agent,
        "channel": event.channel,
        **event.data,
    }
    return {**{key: value for key, value in facts.items() if value is not None}, **more}


_OF_MESSAGES = ("message_received", "chain_step_start", "chain_step_done")
