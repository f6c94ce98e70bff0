"""What ``codex exec --json`` writes: the way where a version has no app-server. It can't be steered or asked."""

from collections.abc import Iterator, Mapping
from typing import Any

from shared.agents.base import Failed, Init, Progress, Result
from shared.agents.providers.codex import failures
from shared.agents.providers.codex.dialogue import CodexTool, Step
from shared.core.text import half_characters

_TOOLS = ("mcp_tool_call", "command_execution", "file_change", "web_search")


class ExecLines:
    """One run. *continuation*: the thread that it was to go on in."""

    def __init__(self, continuation: str | None) -> None:
        self._continuation = continuation
        self._answer: str | None = None
        self._error: str | None = None

    def hear(self, line: bytes) -> Iterator[Step]:
        """What one line means. ``Result`` and ``Failed`` end the turn."""
        found = half_characters.read_object(line)
        match found.get("type"):
            case "thread.started":
                yield from self._began(str(found.get("thread_id") or ""))
            case "item.started" | "item.completed" as kind:
                item = found.get("item")
                yield from self._item(item if isinstance(item, Mapping) else {}, kind == "item.completed")
            case "error":
                self._error = str(found.get("message") or "")
                yield Progress("codex asks its model again")
            case "turn.completed":
                yield Result(self._answer or None)
            case "turn.failed":
                error = found.get("error")
                text = str(error.get("message") or "") if isinstance(error, Mapping) else ""
                yield failures.of_text(text or self._error or "no reason given")

    def _began(self, thread: str) -> Iterator[Step]:
        if self._continuation not in (None, thread):  # it says nothing of it, and exits with 0
            yield Failed("codex: it began a new thread in place of the session's", code="session_lost")
        else:
            yield Init(thread)

    def _item(self, item: Mapping[str, Any], is_over: bool) -> Iterator[Step]:
        kind = item.get("type")
        if kind in _TOOLS:
            yield CodexTool(is_over, str(item.get("tool") or kind))
        elif kind == "agent_message" and is_over:
            self._answer = str(item.get("text") or "")
