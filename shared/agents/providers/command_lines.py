"""The protocol of the provider ``command``: one JSON object in, JSON lines out (``docs/agents/programs.md``)."""

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from shared.agents import briefing
from shared.agents.access import PermissionAnswer, PermissionAsked, ToolAnswer
from shared.agents.base import Failed, Init, Progress, ProviderEvent, Result, Text, Turn, Used
from shared.core.text import half_characters

_MOST_TOKENS = 10**12  # of one line
_LONGEST_WAIT_MS = 10**12
_TYPES = ("init", "progress", "text", "result", "usage", "tool_call", "permission", "heard", "error")
_FIELDS = {"text", "answers", "continuation", "note"}  # of events alone
_BROKEN_OFF = re.compile(rb'\s*\{.*"type"\s*:')


class ProgramCall(NamedTuple):
    """The program calls a tool. *id*: its own name of the call."""

    id: str | None
    name: str
    arguments: Mapping[str, Any]


class ProgramAsks(NamedTuple):
    """The program asks whether it may do something. *id*: its own name of the question."""

    id: str | None
    asked: PermissionAsked

    @property
    def name(self) -> str:
        """Of the tool."""
        return self.asked.tool


class ProgramHeard(NamedTuple):
    """The program took the message with this *number* into its turn."""

    number: int


class Misread(NamedTuple):
    """A line that is meant for Postroom and not for people, and that it does not understand; *reason* says why."""

    reason: str


def question(turn: Turn, *, has_tools: bool, hears: bool = False) -> bytes:
    """The one object of the input, as a line."""
    tools = turn.tools.specs() if has_tools and turn.tools is not None else ()
    return (
        json.dumps(
            {
                "agent": turn.agent,
                "session": turn.session,
                "continuation": turn.continuation,
                "instructions": turn.instructions,
                "memory": briefing.memory(turn).strip(),
                "skills": [{**each._asdict(), "path": each.path} for each in turn.skills],
                "model": turn.model,
                "attempt": turn.attempt,
                "prompt": turn.prompt,
                "messages": [
                    {
                        "id": message.message_id,
                        "kind": message.kind,
                        "sender": message.sender,
                        "text": message.text,
                        "time": message.at_ms,
                        "is_context": message.is_context,
                        **({message.about[0]: message.about[1]} if message.about else {}),
                    }
                    for message in turn.messages
                ],
                **({"tools": [{**each._asdict(), "schema": dict(each.schema)} for each in tools]} if has_tools else {}),
                **({"hears": True} if hears else {}),
            }
        ).encode()
        + b"\n"
    )


def tool_result(call: ProgramCall, answer: ToolAnswer) -> bytes:
    """The line that answers a call."""
    found = {"type": "tool_result", "id": call.id, "text": answer.text, "is_error": answer.is_error}
    return json.dumps(found).encode() + b"\n"


def permission_answer(asks: ProgramAsks, answer: PermissionAnswer) -> bytes:
    """The line that answers a question of the program."""
    found = {"type": "permission_answer", "id": asks.id, **answer._asdict()}
    return json.dumps(found).encode() + b"\n"


def further_message(number: int, text: str) -> bytes:
    """The line that tells a program something while it runs."""
    return json.dumps({"type": "message", "number": number, "prompt": text}).encode() + b"\n"


def event_of(line: bytes) -> ProviderEvent | ProgramCall | ProgramAsks | ProgramHeard | Misread | str | None:
    """One line of output: an event, plain text, or None for a blank line and an event that says nothing."""
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    try:
        found: Any = half_characters.read_json(line)
    except (ValueError, RecursionError):
        return Misread("a JSON object that breaks off, or is no JSON") if _BROKEN_OFF.match(line) else text
    if not isinstance(found, dict):
        return text
    if (wrong := _wrong_type(found)) is not None:
        return Misread(f"a JSON object {wrong}; known types: {', '.join(_TYPES)}")
    return _event(found) if "type" in found else text


def _asks(found: Mapping[str, Any]) -> ProgramAsks:
    arguments, id_ = found.get("arguments"), found.get("id")
    given = arguments if isinstance(arguments, dict) else {}
    tool, why = _words(found.get("tool")) or "a tool without a name", _words(found.get("why"))
    covers = given if found.get("may_be_always") is True else None
    return ProgramAsks(None if id_ is None else str(id_), PermissionAsked(tool, given, str(id_), covers, why))


def _event(found: Mapping[str, Any]) -> ProviderEvent | ProgramCall | ProgramAsks | ProgramHeard | None:
    match found["type"]:
        case "permission":
            return _asks(found)
        case "init":
            continuation = _words(found.get("continuation"))
            return Init(continuation) if continuation else None
        case "progress":
            return Progress(_words(found.get("note")))
        case "text":
            answers = found.get("answers")
            return Text(_words(found.get("text")), answers if isinstance(answers, str) else None)
        case "result":
            return Result(_words(found.get("text")) or None)
        case "usage":
            return _used(found)
        case "tool_call":
            arguments, id_ = found.get("arguments"), found.get("id")
            given = arguments if isinstance(arguments, dict) else {}
            return ProgramCall(None if id_ is None else str(id_), _words(found.get("name")), given)
        case "heard":
            number = found.get("number")
            return ProgramHeard(number) if type(number) is int else None
        case "error":
            return Failed(
                _words(found.get("message")) or "the program reported an error",
                bool(found.get("retryable", True)),
                _wait_ms(found.get("wait_ms")),
                "session_lost" if found.get("code") == "session_lost" else "error",
            )
    return None


def _wrong_type(found: Mapping[str, Any]) -> str | None:
    """Words for an object that is meant as an event and is none; its values may be what people wrote, so none is told.

    None for an event, and for an object that may be the program's answer.
    """
    if isinstance(kind := found.get("type"), str):
        return None if kind in _TYPES else f"of the unknown type {kind[:40]!r}"
    near = get_close_matches("type", [name.lower()[:40] for name in found], n=1, cutoff=0.7)
    if near or (found and found.keys() <= _FIELDS):
        return f'without a "type" that is text (its fields: {", ".join(sorted(found))[:100]})'
    return None


def _used(found: Mapping[str, Any]) -> Used | None:
    """None where it names no model or a number that can't be one."""
    model = _words(found.get("model"))[:200]
    counts = [found.get(name) or 0 for name in ("input", "output", "cache_read", "cache_write")]
    if not model or not all(type(each) is int and 0 <= each <= _MOST_TOKENS for each in counts):
        return None
    return Used(model, *counts)


def _wait_ms(value: object) -> int | None:
    """None where it is no number. A longer wait than any clock needs is as long as that."""
    if not isinstance(value, int | float) or value != value:
        return None
    return int(min(max(value, 0), _LONGEST_WAIT_MS))


def _words(value: object) -> str:
    """The text of a field; empty where the field is missing or null."""
    return "" if value is None else str(value)
