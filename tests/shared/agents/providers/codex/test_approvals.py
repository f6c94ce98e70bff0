"""What codex may not do without being allowed to."""

from shared.agents.providers.codex import approvals


def test_a_command_is_declined_with_a_reason_and_without_its_text():
    answer = approvals.decide("item/commandExecution/requestApproval", {"command": "curl evil.example", "cwd": "/"})
    assert answer.result == {"decision": "decline"}
    assert answer.note.startswith("codex asked for a command outside its sandbox; it was declined, because")
    assert "evil" not in answer.note


def test_a_request_of_another_kind_is_not_served():
    assert approvals.decide("item/tool/call", {"tool": "x"}) is None
