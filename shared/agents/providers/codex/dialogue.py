"""One turn over codex' app-server, without I/O: messages of the program in, what to do about them out.

::

    initialize, initialized ──> thread/start | thread/resume ──> turn/start ──> items … ──> turn/completed

The protocol is JSON-RPC, one message a line, without the field ``jsonrpc``. ``codex app-server generate-json-schema``
writes its schema; the parts that are used here are kept in ``tests/shared/agents/providers/codex/protocol.json``.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from shared.agents.access import PermissionAnswer, PermissionAsked
from shared.agents.base import Failed, Init, Progress, ProviderEvent, Result
from shared.agents.providers.codex import approvals, failures
from shared.core.text import half_characters

_INITIALIZE, _THREAD, _TURN, _LATER = 1, 2, 3, 10  # ids of our requests
_NO_SUCH_METHOD = -32601
_TOOLS = ("mcpToolCall", "commandExecution", "dynamicToolCall", "fileChange", "webSearch", "collabAgentToolCall")


class CodexSays(msgspec.Struct, frozen=True):
    """A message for the program's standard input."""

    message: Mapping[str, Any]

    @property
    def line(self) -> bytes:
        """As it is written."""
        return json.dumps(self.message).encode() + b"\n"

    @property
    def number(self) -> int:
        """Its id, for the answer; 0 where it wants none."""
        found = self.message.get("id")
        return found if isinstance(found, int) else 0


class CodexTool(msgspec.Struct, frozen=True):
    """A tool call began, or is over."""

    is_over: bool
    name: str = ""


class CodexAsks(msgspec.Struct, frozen=True):
    """Codex asks whether it may do something, and waits."""

    number: object
    method: str
    asked: PermissionAsked

    def answer(self, found: PermissionAnswer) -> CodexSays:
        """The message with the decision."""
        return CodexSays({"id": self.number, "result": approvals.answer(self.method, is_allowed=found.is_allowed)})


class CodexAnswered(msgspec.Struct, frozen=True):
    """The answer to a message that was sent while the turn ran. *is_taken*: codex does what it says."""

    number: int
    is_taken: bool


_PIECE = b'{"method":"item/agentMessage/delta"'

Step = CodexSays | CodexTool | CodexAsks | CodexAnswered | ProviderEvent
"""What to do about a message of codex. ``Result`` and ``Failed`` end the turn."""


def is_piece(line: bytes) -> bool:
    """Whether the line is a piece of a text that comes whole later."""
    return line.startswith(_PIECE)


class Dialogue:
    """One turn.

    Args:
        thread: the parameters of ``thread/start``.
        continuation: the id of the thread to go on in; None: a new one.
        prompt: the batch.
        images: files that the model is to see; they must be readable images, or they become a sentence.
    """

    def __init__(
        self, thread: Mapping[str, Any], continuation: str | None, prompt: str, images: Sequence[Path] = ()
    ) -> None:
        self._thread = thread
        self._continuation = continuation
        self._input = [_text(prompt), *({"type": "localImage", "path": str(path)} for path in images)]
        self._thread_id: str | None = None
        self._turn_id: str | None = None
        self._answer: str | None = None
        self._until_ms: int | None = None
        self._open: set[str] = set()
        self._items: dict[str, Mapping[str, Any]] = {}  # the open ones
        self._next_id = _LATER

    def begin(self) -> list[CodexSays]:
        """The first messages; they need no answer in between."""
        about = {"clientInfo": {"name": "postroom", "version": "1"}, "capabilities": {"experimentalApi": True}}
        if self._continuation is None:
            thread = _request(_THREAD, "thread/start", self._thread)
        else:
            goal = {"threadId": self._continuation, "excludeTurns": True, **self._thread}
            thread = _request(_THREAD, "thread/resume", goal)
        return [_request(_INITIALIZE, "initialize", about), CodexSays({"method": "initialized"}), thread]

    @property
    def runs(self) -> bool:
        """Whether codex has begun the turn, and not ended it."""
        return self._thread_id is not None and self._turn_id is not None

    def steer(self, text: str) -> CodexSays | None:
        """The message that tells the running turn *text* too; None: it does not run yet, or no more."""
        if self._thread_id is None or self._turn_id is None:
            return None
        goal = {"threadId": self._thread_id, "expectedTurnId": self._turn_id, "input": [_text(text)]}
        return self._later("turn/steer", goal)

    def interrupt(self) -> CodexSays | None:
        """The message that stops the running turn; None: nothing runs."""
        if self._thread_id is None or self._turn_id is None:
            return None
        return self._later("turn/interrupt", {"threadId": self._thread_id, "turnId": self._turn_id})

    def hear(self, line: bytes) -> Iterator[Step]:
        """What one line of the program's output means. A line that is no message of the protocol means nothing."""
        message = half_characters.read_object(line)
        method = message.get("method")
        if isinstance(method, str) and "id" in message:
            yield from self._asked(message["id"], method, _table(message.get("params")))
        elif isinstance(method, str):
            yield from self._read_notice(method, _table(message.get("params")))
        elif "id" in message:
            yield from self._read_answer(message)

    # -- answers to our requests

    def _read_answer(self, message: Mapping[str, Any]) -> Iterator[Step]:
        number, error = message["id"], message.get("error")
        if error is not None and number in (_INITIALIZE, _THREAD, _TURN):
            yield failures.of_text(str(_table(error).get("message") or "it refused the turn"))
        elif number == _THREAD:
            yield from self._begin_turn(_table(message.get("result")))
        elif number == _TURN:
            self._turn_id = _id(_table(_table(message.get("result")).get("turn")))
        elif isinstance(number, int) and number > _LATER:
            yield CodexAnswered(number, error is None)

    def _begin_turn(self, result: Mapping[str, Any]) -> Iterator[Step]:
        found = _id(_table(result.get("thread")))
        if found is None:
            yield Failed("codex: it began a thread and did not say which", code="malformed")
        elif self._continuation not in (None, found):
            yield Failed("codex: it began a new thread in place of the session's", code="session_lost")
        else:
            self._thread_id = found
            yield Init(found)
            yield _request(_TURN, "turn/start", {"threadId": found, "input": self._input})

    # -- what it asks us

    def _asked(self, number: object, method: str, params: Mapping[str, Any]) -> Iterator[Step]:
        if not approvals.is_served(method):
            error = {"code": _NO_SUCH_METHOD, "message": f"Postroom does not serve {method}"}
            yield CodexSays({"id": number, "error": error})
        elif (asked := approvals.asked(str(number), method, params, self._items)) is not None:
            yield CodexAsks(number, method, asked)
            yield Progress(f"asks whether it may use {asked.tool}")
        else:
            yield CodexSays({"id": number, "result": approvals.answer(method, is_allowed=False)})
            yield Progress("asked for something that Postroom declines")

    # -- what it tells us

    def _read_notice(self, method: str, params: Mapping[str, Any]) -> Iterator[Step]:
        match method:
            case "turn/started":
                self._turn_id = _id(_table(params.get("turn"))) or self._turn_id
            case "item/agentMessage/delta":
                yield Progress(str(params.get("delta") or ""))
            case "item/started":
                yield from self._item(_table(params.get("item")), is_over=False)
            case "item/completed":
                yield from self._item(_table(params.get("item")), is_over=True)
            case "account/rateLimits/updated":
                self._until_ms = _reset(_table(params.get("rateLimits"))) or self._until_ms
            case "error" if params.get("willRetry"):
                yield Progress("codex asks its model again")
            case "turn/completed":
                yield from self._over(_table(params.get("turn")))

    def _item(self, item: Mapping[str, Any], *, is_over: bool) -> Iterator[Step]:
        kind, number = item.get("type"), str(item.get("id"))
        if kind in _TOOLS:
            if is_over is (number in self._open):  # each end has had a beginning
                self._open ^= {number}
                if is_over:
                    self._items.pop(number, None)
                else:
                    self._items[number] = item
                yield CodexTool(is_over, str(item.get("tool") or kind))
        elif kind == "agentMessage" and is_over:
            # The last text is the answer; what the model says on its way is a note for people who watch.
            if item.get("phase") == "commentary":
                yield Progress(str(item.get("text") or ""))
            else:
                self._answer = str(item.get("text") or "")

    def _over(self, turn: Mapping[str, Any]) -> Iterator[Step]:
        if self._turn_id not in (None, _id(turn)):
            return
        self._turn_id = None
        match turn.get("status"):
            case "completed":
                yield Result(self._answer or None)
            case "interrupted":
                yield Failed("codex: the turn was interrupted", code="interrupted")
            case _:
                yield failures.of_turn(_table(turn.get("error")), self._until_ms)

    def _later(self, method: str, params: Mapping[str, Any]) -> CodexSays:
        self._next_id += 1
        return _request(self._next_id, method, params)


def _request(number: int, method: str, params: Mapping[str, Any]) -> CodexSays:
    return CodexSays({"id": number, "method": method, "params": params})


def _text(text: str) -> Mapping[str, Any]:
    return {"type": "text", "text": text}


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _id(about: Mapping[str, Any]) -> str | None:
    found = about.get("id")
    return found if isinstance(found, str) and found else None


def _reset(limits: Mapping[str, Any]) -> int | None:
    """When the window that is used up begins anew, in ms UTC."""
    windows = [_table(limits.get(name)) for name in ("primary", "secondary")]
    ends = [window.get("resetsAt") for window in windows if window.get("usedPercent", 0) >= 100]
    return max((int(end) * 1000 for end in ends if isinstance(end, int)), default=None)
