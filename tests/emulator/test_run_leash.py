"""A program on the leash of a running emulator: which descriptors it has, and which its parents could give away."""

import json
import sys

import pytest

from tests.emulator.harness import Emulator, fetch
from tests.liveness import inheritable

pytestmark = pytest.mark.e2e

AGENT = """
import json, os
links = ["/proc/self/fd/" + each for each in os.listdir("/proc/self/fd")]
numbers = sorted(os.path.basename(each) for each in links if os.path.islink(each))
print(json.dumps({"type": "text", "text": " ".join(numbers)}))
"""


def test_a_program_gets_no_descriptor_of_dispatch(running: Emulator) -> None:
    """With dispatch's listening socket a program would connect to the API as the operator's own process does."""
    (running.project / "agent.py").write_text(AGENT)
    config = {"command": [sys.executable, "-I", str(running.project / "agent.py")]}
    agent = json.dumps({"provider": "command", "config": config}).encode()
    assert fetch(f"{running.url}/api/agents/lister", method="PUT", body=agent)[0] == 200

    status, sent = fetch(f"{running.url}/api/message", method="POST", body=b'{"agent": "lister", "message": "list"}')
    assert status == 200
    message = json.loads(sent)["messageId"]
    story = json.loads(running.get(f"/api/messages/{message}?wait=60")[1])

    assert [each["message"] for each in story["responses"]] == ["0 1 2"]


def test_no_function_has_a_descriptor_that_a_child_would_inherit(running: Emulator) -> None:
    """Beside the three standard ones; each was received from the fork server, or opened by the function."""
    functions = [each["pid"] for each in running.status["functions"]]
    assert len(functions) == 6

    assert {pid: inheritable(pid) for pid in functions} == {pid: [] for pid in functions}
