"""Another user of the machine is not the operator of a function that ``infra.runner`` serves."""

import json
import socket
import stat
import sys

import pytest

from tests.forks import FORKS, run_crew
from tests.infra.processes import ROOT, Process
from tests.other_user import ask, ask_as_nobody, become_nobody, needs_root

PROGRAM = json.dumps({"name": "x", "provider": "command", "config": {"command": ["cat", "/etc/shadow"]}})


@pytest.fixture(scope="module", params=["127.0.0.1", "::1"])
def served(request, tmp_path_factory):
    """The address of an ``api``, and its folder."""
    folder = tmp_path_factory.mktemp("api")
    environment = {"POSTROOM_DB": str(folder / "postroom.db"), "POSTROOM_RUN_DIR": str(folder / "run")}
    (folder / "run").mkdir()
    argv = (sys.executable, "-m", "infra.runner", "api", "--host", request.param, "--port", "0")
    process = Process(*argv, environment=environment, cwd=ROOT)
    port = process.wait_for("function.listening")[0]["port"]
    process.wait_for("function.ready")
    host = f"[{request.param}]" if ":" in request.param else request.param
    yield f"http://{host}:{port}", folder
    process.close()


CALLS = [("GET", "/api/agents", None), ("PUT", "/api/agents/x", PROGRAM), ("GET", "/api/responses/pending", None)]


@needs_root
@pytest.mark.parametrize(("method", "path", "body"), CALLS)
def test_another_user_is_refused_and_told_where_the_token_is(served, method, path, body):
    url, _ = served
    status, told, _ = ask_as_nobody(url + path, method, body)
    assert status == 401
    assert "the file postroom.db-api-token, which lies beside the database" in told


@needs_root
def test_another_user_with_the_token_is_answered(served):
    url, folder = served
    file = folder / "postroom.db-api-token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token = {"Authorization": f"Bearer {file.read_text().strip()}"}
    assert ask_as_nobody(f"{url}/api/agents", headers=token)[0] == 200


def test_postrooms_own_user_needs_no_token(served):
    url, _ = served
    assert ask(f"{url}/api/agents")[0] == 200
    assert ask(f"{url}/api/message", "POST", '{"message": "hello"}')[0] == 200


@needs_root
def test_everybody_may_ask_whether_it_lives(served):
    url, _ = served
    assert ask_as_nobody(f"{url}/healthz")[0] == 200


@needs_root
def test_a_caller_that_leaves_before_it_is_answered_is_refused(served):
    """The socket has no process any more, and the kernel may say that it is root's."""
    url, _ = served
    host, _, port = url.removeprefix("http://").rpartition(":")
    process = FORKS.Process(target=_send_and_leave, args=(host.strip("[]"), int(port)))
    assert run_crew([process]) == [0]
    assert ask(f"{url}/api/messages/from_nobody")[0] == 404


def _send_and_leave(host, port):
    become_nobody()
    body = '{"message": "hello", "messageId": "from_nobody"}'
    head = f"POST /api/message HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    for _ in range(50):
        with socket.create_connection((host, port)) as client:
            client.sendall((head + body).encode())
