import contextlib
import signal

import pytest

from tests.infra.processes import listening_socket, python

SECRET = "tick-tock"


@pytest.fixture(autouse=True, scope="session")
def ctrl_c_is_heard():
    """A shell without job control makes background programs ignore SIGINT, and their children inherit that."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def environment(tmp_path):
    """The environment of a function: its own database, and no variable of the shell that runs the tests."""
    return {
        "POSTROOM_DB": str(tmp_path / "p.db"),
        "POSTROOM_RUN_DIR": str(tmp_path / "run"),
        "POSTROOM_TICK_SECRET": SECRET,
    }


@pytest.fixture
def start():
    """Starts processes that end with the test."""
    with contextlib.ExitStack() as stack:

        def started(*argv, **options):
            process = python(*argv, **options)
            stack.callback(process.close)
            return process

        yield started


@pytest.fixture
def serve(start, environment):
    """Serves one of the sample functions on an inherited socket: returns the process and its address."""

    def serving(name="sample", timeout_ms=10_000):
        sock, port = listening_socket()
        with sock:
            process = start(
                "-m",
                "tests.infra.serve",
                name,
                sock.fileno(),
                timeout_ms,
                environment=environment,
                pass_fds=[sock.fileno()],
            )
        return process, f"http://127.0.0.1:{port}"

    return serving
