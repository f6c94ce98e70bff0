"""The programs of the units give systemd's watchdog its signs, for as long as their event loops turn."""

import signal
import sys

import httpx
import pytest

from tests.infra.processes import ROOT, Process, kept_port, listening_socket
from tests.infra.service_manager import HOLDS_OFF, NotifySocket, as_main_process


@pytest.fixture
def notify(tmp_path):
    notify = NotifySocket(tmp_path / "notify", limit_s=1.0)
    yield notify
    notify.close()


@pytest.fixture
def run(environment, notify):
    """Starts a program as systemd does."""
    started = []

    def run(*words, pass_fds=(), **more):
        environ = {**environment, **notify.environment, **more}
        started.append(
            Process(*as_main_process([sys.executable, *words]), environment=environ, pass_fds=pass_fds, cwd=ROOT)
        )
        return started[-1]

    yield run
    for process in started:
        process.close()


def test_a_function_gives_signs_until_its_event_loop_stands_still_and_its_end_says_where(run, notify):
    sock, port = listening_socket()
    with sock:
        process = run("-m", "tests.infra.serve", "sample", sock.fileno(), 10_000, pass_fds=[sock.fileno()])
    assert notify.receive() == (process.pid, HOLDS_OFF), "its start may take long"
    assert [notify.receive() for _ in range(3)] == [(process.pid, notify.sign)] * 3

    with httpx.Client(timeout=0.1, trust_env=False) as client:
        process.wait_for("function.ready")
        with pytest.raises(httpx.TimeoutException):
            client.get(f"http://127.0.0.1:{port}/block?s=600")
    process.wait_for("sample.blocking")
    notify.waiting()
    with pytest.raises(TimeoutError):
        notify.receive(limit_s=2.5)

    assert process.stop(signal.SIGABRT)[0] == -signal.SIGABRT
    assert "Fatal Python error: Aborted" in process.err
    assert any('samples/sample.py", line' in line and line.endswith("in block") for line in process.err)


def test_a_standby_that_waits_is_not_waited_for(run, notify):
    process = run("-m", "infra.runner", "sweep", "--port", "0", "--standby")
    process.wait_for("function.standing_by")
    assert notify.waiting() == [HOLDS_OFF]


def test_a_host_gives_signs_while_it_is_the_standby_and_while_it_is_active(run, notify, tmp_path):
    process = run(
        *("-m", "infra.standby"),
        POSTROOM_REPLICA_URL=f"file://{tmp_path}/replica",
        POSTROOM_LITESTREAM_SOCKET=str(tmp_path / "l.sock"),
    )
    assert notify.receive() == (process.pid, notify.sign)
    process.wait_for("replicate.started")
    notify.waiting()
    assert notify.receive() == (process.pid, notify.sign)


def test_the_ticker_gives_signs(run, notify):
    sock, port = kept_port()
    with sock:
        process = run("-m", "infra.ticker", f"sweep=60s@{port}")
        assert [notify.receive() for _ in range(3)] == [(process.pid, notify.sign)] * 3
        assert process.stop(signal.SIGTERM)[0] == 0
