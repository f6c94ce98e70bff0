"""What Postroom answers when codex asks for something during a turn.

Nobody is asked yet: what codex may do is decided by its agent's config, and the rest is declined. ``decide`` is the one
place where people will be asked.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class ApprovalAnswer(NamedTuple):
    """The answer, in the form of the request; *note*: for people who watch the turn."""

    result: Mapping[str, Any]
    note: str


_COMMAND = "a command outside its sandbox"
_DECLINED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "item/commandExecution/requestApproval": (_COMMAND, {"decision": "decline"}),
    "item/fileChange/requestApproval": ("a change of files outside its folder", {"decision": "decline"}),
    "item/permissions/requestApproval": ("more permissions", {"permissions": {}, "scope": "turn"}),
    "mcpServer/elicitation/request": ("an answer to a tool's question", {"action": "decline", "content": None}),
    "item/tool/requestUserInput": ("an answer of a person", {"answers": {}}),
}


def decide(method: str, params: Mapping[str, Any]) -> ApprovalAnswer | None:
    """The answer to a request of codex; None: Postroom does not serve this kind of request.

    Args:
        params: what codex wants to do; not used while everything is declined.
    """
    declined = _DECLINED.get(method)
    if declined is None:
        return None
    what, result = declined
    return ApprovalAnswer(
        result, f"codex asked for {what}; it was declined, because its agent's config does not allow it"
    )
