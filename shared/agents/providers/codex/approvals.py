"""What codex asks during a turn: what an approver may decide, and the answers in the form of each request.

A command, a change of files and a call of another server's tool are asked. The rest is declined: more permissions for
all that follows, and questions to a person, for which agents have tools of Postroom.
"""

from collections.abc import Mapping
from typing import Any

from shared.agents.access import PermissionAsked

_COMMAND = "item/commandExecution/requestApproval"
_FILES = "item/fileChange/requestApproval"
_TOOL = "mcpServer/elicitation/request"  # it stands for other questions of a server too
_DECLINED: Mapping[str, Mapping[str, Any]] = {
    _COMMAND: {"decision": "decline"},
    _FILES: {"decision": "decline"},
    _TOOL: {"action": "decline", "content": None},
    "item/permissions/requestApproval": {"permissions": {}, "scope": "turn"},
    "item/tool/requestUserInput": {"answers": {}},
}
_ALLOWED: Mapping[str, Mapping[str, Any]] = {
    _COMMAND: {"decision": "accept"},  # once: what may follow from it is asked anew
    _FILES: {"decision": "accept"},
    _TOOL: {"action": "accept", "content": {}},
}


def is_served(method: str) -> bool:
    """Whether Postroom answers this kind of request."""
    return method in _DECLINED


def asked(
    number: str, method: str, params: Mapping[str, Any], items: Mapping[str, Mapping[str, Any]]
) -> PermissionAsked | None:
    """What an approver is to decide; None: it is declined at once.

    Args:
        number: of the request: one call may ask more than once, each time about something else.
        items: what codex said of its calls when they began, by their ids: it names the files of a change there alone.
    """
    why = str(params.get("reason") or "")
    if method == _COMMAND and params.get("command") and params.get("kind", "command") == "command":
        given = {name: params[name] for name in ("command", "cwd", "networkApprovalContext") if params.get(name)}
        return PermissionAsked("shell", given, number, None, why)
    if method == _FILES and (changes := items.get(str(params.get("itemId")), {}).get("changes")):
        more = {"also_writes_in": params["grantRoot"]} if params.get("grantRoot") else {}
        return PermissionAsked("apply_patch", {"changes": changes, **more}, number, None, why)
    about = params.get("_meta")
    if method == _TOOL and isinstance(about, Mapping) and about.get("codex_approval_kind") == "mcp_tool_call":
        given = about.get("tool_params") or {}
        if not isinstance(given, Mapping):
            return None
        return PermissionAsked(f"{params.get('serverName')}.{about.get('tool_name')}", given, number, given)
    return None


def answer(method: str, *, is_allowed: bool) -> Mapping[str, Any]:
    """The answer, in the form of the request."""
    return (_ALLOWED if is_allowed else _DECLINED)[method]
