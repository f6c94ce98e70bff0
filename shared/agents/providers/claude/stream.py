"""What ``claude --output-format stream-json`` writes: one JSON object a line, as 2.1.330 does.

A line of another type, or of a later version, is nothing: only these say something that a turn needs.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from shared.agents.access import PermissionAsked
from shared.core.text import half_characters

_PARTIAL = b'{"type":"stream_event"'


class ClaudeBegan(msgspec.Struct, frozen=True):
    """The session is known. *servers*: the state of each MCP server, such as ``connected``."""

    session: str
    servers: Mapping[str, str]


class ClaudeCalls(msgspec.Struct, frozen=True):
    """The model calls a tool."""

    call: str
    tool: str


class ClaudeCalled(msgspec.Struct, frozen=True):
    """The tool has answered."""

    call: str


class ClaudeRetries(msgspec.Struct, frozen=True):
    """The model's host refused; the program asks again by itself. *status*: None where there was no answer."""

    status: int | None


class ClaudeLimit(msgspec.Struct, frozen=True):
    """The plan is used up, until *until_ms* (ms UTC) where that is known."""

    until_ms: int | None


class ClaudeHeard(msgspec.Struct, frozen=True):
    """What becomes of a line of its input: ``queued``, ``started``, ``completed`` or ``cancelled``.

    *line*: the ``uuid`` that the line came with.
    """

    line: str
    state: str


class ClaudeAsks(msgspec.Struct, frozen=True):
    """The program asks something, and waits. *asked*: whether it may use a tool; None: another kind of request."""

    number: str
    asked: PermissionAsked | None


class ClaudeAsksNoMore(msgspec.Struct, frozen=True):
    """The program does not want the answer to its question *number* any more."""

    number: str


class ClaudeResult(msgspec.Struct, frozen=True):
    """The turn is over.

    Attributes:
        text: the answer; where *is_error*, what went wrong.
        subtype: ``success`` also stands on errors of the model's host.
        status: of HTTP, where the model's host answered with an error.
    """

    text: str
    is_error: bool
    subtype: str
    status: int | None


ClaudeLine = (
    ClaudeBegan
    | ClaudeCalls
    | ClaudeCalled
    | ClaudeRetries
    | ClaudeLimit
    | ClaudeHeard
    | ClaudeAsks
    | ClaudeAsksNoMore
    | ClaudeResult
)


def is_partial(line: bytes) -> bool:
    """Whether the line is a piece of an answer that comes whole later: it shows life, and is not counted as output."""
    return line.startswith(_PARTIAL)


def read(line: bytes) -> Iterator[ClaudeLine]:
    """What one line says."""
    if is_partial(line):
        return
    found = half_characters.read_object(line)
    match found.get("type"):
        case "system":
            yield from _system(found)
        case "assistant":
            yield from _assistant(found)
        case "user":
            yield from _user(found)
        case "rate_limit_event":
            yield from _limit(_part(found, "rate_limit_info"))
        case "command_lifecycle":
            yield ClaudeHeard(str(found.get("command_uuid")), str(found.get("state")))
        case "control_request" | "control_cancel_request" as kind:
            yield _control(kind, found)
        case "result":
            yield _result(found)


# What names the thing that these tools change: to allow it always covers it, and no other.
_FILE_TOOLS = {"Read": "file_path", "Edit": "file_path", "Write": "file_path", "NotebookEdit": "notebook_path"}
_SHELLS = ("Bash",)  # the same words may do something else the next time


def _control(kind: str, found: Mapping[str, Any]) -> ClaudeAsks | ClaudeAsksNoMore:
    number = str(found.get("request_id"))
    return _asks(number, _part(found, "request")) if kind == "control_request" else ClaudeAsksNoMore(number)


def _asks(number: str, request: Mapping[str, Any]) -> ClaudeAsks:
    tool, given = request.get("tool_name"), request.get("input")
    if request.get("subtype") != "can_use_tool" or not isinstance(tool, str) or not isinstance(given, dict):
        return ClaudeAsks(number, None)
    call, why = str(request.get("tool_use_id") or number), request.get("decision_reason")
    return ClaudeAsks(number, PermissionAsked(tool, given, call, _covers(tool, given), str(why or "")))


def _covers(tool: str, given: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if tool in _SHELLS:
        return None
    name = _FILE_TOOLS.get(tool)
    return given if name is None or name not in given else {name: given[name]}


def _system(found: Mapping[str, Any]) -> Iterator[ClaudeLine]:
    session = found.get("session_id")
    if found.get("subtype") == "init" and isinstance(session, str):
        servers = found.get("mcp_servers")
        known = [each for each in servers if isinstance(each, dict)] if isinstance(servers, list) else []
        yield ClaudeBegan(session, {str(each.get("name")): str(each.get("status")) for each in known})
    elif found.get("subtype") == "api_retry":
        yield ClaudeRetries(_status(found.get("error_status")))


def _assistant(found: Mapping[str, Any]) -> Iterator[ClaudeLine]:
    for block in _blocks(found):
        if block.get("type") == "tool_use":
            yield ClaudeCalls(str(block.get("id")), str(block.get("name")))


def _user(found: Mapping[str, Any]) -> Iterator[ClaudeLine]:
    for block in _blocks(found):
        if block.get("type") == "tool_result":
            yield ClaudeCalled(str(block.get("tool_use_id")))


def _limit(info: Mapping[str, Any]) -> Iterator[ClaudeLine]:
    if info.get("status") == "rejected":
        resets = info.get("resetsAt")
        yield ClaudeLimit(int(resets * 1000) if isinstance(resets, int | float) and 0 < resets < 10**11 else None)


def _result(found: Mapping[str, Any]) -> ClaudeResult:
    text, errors = found.get("result"), found.get("errors")
    if not isinstance(text, str):
        text = "; ".join(str(each) for each in errors) if isinstance(errors, list) else ""
    subtype = str(found.get("subtype"))
    is_error = bool(found.get("is_error")) or subtype != "success"
    return ClaudeResult(text, is_error, subtype, _status(found.get("api_error_status")))


def _blocks(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = _part(found, "message").get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _part(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = found.get(name)
    return part if isinstance(part, dict) else {}


def _status(value: object) -> int | None:
    return value if type(value) is int else None
