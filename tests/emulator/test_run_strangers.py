"""Another user of the machine has no door into a running emulator, and its own user every one."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.emulator.harness import Emulator, command
from tests.other_user import ask, ask_as_nobody, needs_root

pytestmark = [pytest.mark.e2e, pytest.mark.any_python]

SIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=any/20261126/us-east-1/s3/aws4_request, Signature=any"}
PROGRAM = json.dumps({"name": "x", "provider": "command", "config": {"command": ["cat", "/etc/shadow"]}})
DOORS: dict[str, tuple[str, str, str, str | None, dict[str, str]]] = {
    "the API": ("api", "GET", "/api/agents", None, {}),
    "the API, for an agent with a program": ("api", "PUT", "/api/agents/x", PROGRAM, {}),
    "the API through the gateway": ("gateway", "GET", "/api/agents", None, {}),
    "the status": ("gateway", "GET", "/_emulator/status", None, {}),
    "the chat page": ("gateway", "GET", "/_emulator/chat", None, {}),
    "the chats": ("gateway", "GET", "/_emulator/chat/state", None, {}),
    "the chats at the fakes": ("platforms", "GET", "/chat/state", None, {}),
    "the control of the fakes": ("platforms", "GET", "/control/telegram/calls", None, {}),
    "the control of an account": ("platforms", "GET", "/control/accounts", None, {}),
    "the replica": ("s3", "GET", "/postroom-replica?list-type=2", None, SIGNED),
    "the buckets": ("s3", "GET", "/", None, SIGNED),
}


@needs_root
@pytest.mark.parametrize(("server", "method", "path", "body", "headers"), DOORS.values(), ids=DOORS)
def test_another_user_is_refused(
    running: Emulator, server: str, method: str, path: str, body: str | None, headers: dict[str, str]
) -> None:
    url = running.instance["urls"][server] + path
    status, told, _ = ask_as_nobody(url, method, body, headers)
    assert status == (403 if server == "s3" else 401)
    assert "S3 serves the user of its emulator" in told or "postroom.db-api-token" in told
    if method == "GET":
        assert ask(url, method, body, headers)[0] == 200


@needs_root
@pytest.mark.parametrize(("server", "path"), [("api", "/api/agents"), ("gateway", "/api/agents")])
def test_another_user_with_the_token_of_the_file_is_answered(running: Emulator, server: str, path: str) -> None:
    file = running.project / ".emulator" / "postroom.db-api-token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token = file.read_text().strip()
    url = running.instance["urls"][server] + path
    assert ask_as_nobody(url, headers={"Authorization": f"Bearer {token}"})[0] == 200
    assert ask_as_nobody(url, headers={"Authorization": f"Bearer {token[:-1]}"})[0] == 401


@needs_root
def test_a_webhook_needs_its_signature_and_no_user(running: Emulator) -> None:
    url = f"{running.url}/webhooks/telegram"
    secret = {"X-Telegram-Bot-Api-Secret-Token": running.instance["environment"]["TELEGRAM_WEBHOOK_SECRET"]}
    assert ask_as_nobody(url, "POST", "{}")[0] == 401
    assert ask_as_nobody(url, "POST", '{"update_id": 1}', secret)[0] == 200


@pytest.mark.parametrize("server", ["api", "gateway"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_page_of_another_port_is_refused(running: Emulator, server: str, method: str) -> None:
    path = "/api/agents" if method == "GET" else "/api/message"
    url = running.instance["urls"][server] + path
    body = None if method == "GET" else json.dumps({"message": "hello"})
    assert ask(url, method, body, {"Origin": "http://localhost:1"})[0] == 403
    own = running.instance["urls"][server]
    assert ask(url, method, body, {"Origin": own})[0] == 200


def test_our_own_commands_work_as_before(running: Emulator) -> None:
    for arguments in (("agents", "list"), ("chat", "telegram", "hello"), ("status",)):
        done = command(running.project, *arguments)
        assert done.returncode == 0, done.stderr + done.stdout
    told: Any = command(running.project, "exec", "--", "env").stdout
    assert "EMULATOR_TOKEN=" in told
    assert "POSTROOM_API_TOKEN=" not in told
    assert Path(running.project / ".emulator" / "instance.json").stat().st_mode & 0o077 == 0
