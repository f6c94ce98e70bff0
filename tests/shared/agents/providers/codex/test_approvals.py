"""What codex asks, and what of it an approver decides."""

import pytest

from shared.agents.providers.codex import approvals

COMMAND = "item/commandExecution/requestApproval"


def test_a_shell_is_asked_each_time():
    asked = approvals.asked("7", COMMAND, {"command": "curl evil.example", "cwd": "/", "reason": "news"}, {})
    assert asked == ("shell", {"command": "curl evil.example", "cwd": "/"}, "7", None, "news")


@pytest.mark.parametrize(
    ("method", "params"),
    [
        (COMMAND, {"command": "yes", "kind": "writeStdin"}),
        (COMMAND, {}),
        ("mcpServer/elicitation/request", {"serverName": "weather", "message": "Where?"}),
        ("mcpServer/elicitation/request", {"_meta": {"codex_approval_kind": "mcp_tool_call", "tool_params": ["x"]}}),
        ("item/permissions/requestApproval", {"permissions": {"network": True}}),
        ("item/tool/requestUserInput", {}),
    ],
)
def test_what_an_approver_could_not_see_whole_is_declined(method, params):
    assert approvals.is_served(method)
    assert approvals.asked("7", method, params, {}) is None


def test_a_request_of_another_kind_is_not_served():
    assert not approvals.is_served("item/tool/call")
