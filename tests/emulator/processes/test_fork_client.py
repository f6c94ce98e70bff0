"""The fork server: it forks the code on disk, reports when a fork is ready and how it ended, and leaves nothing."""

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from emulator.base.errors import NotReady
from emulator.processes.fork_client import ForkClient, ForkedProcess
from tests.emulator.harness import ROOT, wait_until
from tests.liveness import is_alive

pytestmark = pytest.mark.e2e

ENTRIES = """
import os, signal, socket, sys, time

def ready(options, ready_fd, sockets):
    print("out", flush=True); print("err", file=sys.stderr, flush=True)
    os.write(ready_fd, b"1")
    signal.pause()

def ends(options, ready_fd, sockets):
    return options["code"]

def raises(options, ready_fd, sockets):
    raise ValueError("what went wrong")

def stubborn(options, ready_fd, sockets):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(ready_fd, b"1")
    while True: time.sleep(1)

def parent(options, ready_fd, sockets):
    child = os.fork()
    if child == 0:
        while True: time.sleep(1)
    print(child, flush=True)
    os.write(ready_fd, b"1")
    while True: time.sleep(1)

def facts(options, ready_fd, sockets):
    print(sorted(os.environ), flush=True)
    print(socket.socket(fileno=sockets[0]).getsockname()[1], flush=True)
    print(len(os.listdir("/proc/self/fd")), flush=True)
    return 0

def fact(options, ready_fd, sockets):
    import shared.fact
    print(shared.fact.FACT, flush=True)
    return 0

def version(options, ready_fd, sockets):
    import changing
    print(changing.VERSION, flush=True)
    return 0
"""


def with_fork_client(tmp_path: Path, scenario: Callable[[ForkClient], Awaitable[None]]) -> None:
    """Run *scenario* with a fork server whose project is *tmp_path*."""
    (tmp_path / "entries.py").write_text(ENTRIES)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}

    async def run() -> None:
        fork_client = ForkClient(tmp_path, environment, print)
        fork_client.start()
        try:
            await fork_client.wait_loaded()
            await scenario(fork_client)
        finally:
            await fork_client.stop()

    asyncio.run(run())


def fork(fork_client: ForkClient, entry: str, said: list[str] | None = None, **more: object) -> ForkedProcess:
    """``entries.ENTRY`` in a new process whose lines go to *said*."""
    lines = [] if said is None else said
    sockets = more.pop("sockets", ())
    return fork_client.fork(
        entry,
        f"entries:{entry}",
        more,
        {"ONLY": "this"},
        on_line=lambda text, is_error: lines.append(f"{'err' if is_error else 'out'}:{text}"),
        sockets=sockets,  # type: ignore[arg-type]
    )


def test_a_fork_reports_that_it_is_ready_and_its_output(tmp_path: Path) -> None:
    async def scenario(fork_client: ForkClient) -> None:
        said: list[str] = []
        process = fork(fork_client, "ready", said)

        assert await process.wait_ready(60)
        assert is_alive(process.pid)
        assert await fork_client.stop_fork(process, 60)
        assert await process.wait_ended() == -signal.SIGTERM
        assert sorted(said) == ["err:err", "out:out"]

    with_fork_client(tmp_path, scenario)


def test_exit_codes_and_tracebacks_are_reported(tmp_path: Path) -> None:
    async def scenario(fork_client: ForkClient) -> None:
        said: list[str] = []
        assert await fork(fork_client, "ends", code=0).wait_ended(60) == 0
        assert await fork(fork_client, "ends", code=3).wait_ended(60) == 3
        assert not await (broken := fork(fork_client, "raises", said)).wait_ready(60)
        assert await broken.wait_ended(60) == 1
        assert said[-1] == "err:ValueError: what went wrong"

    with_fork_client(tmp_path, scenario)


def test_a_fork_that_does_not_stop_is_killed_with_its_children(tmp_path: Path) -> None:
    async def scenario(fork_client: ForkClient) -> None:
        said: list[str] = []
        stubborn, parent = fork(fork_client, "stubborn"), fork(fork_client, "parent", said)
        assert await stubborn.wait_ready(60)
        assert await parent.wait_ready(60)
        child = int(said[0].removeprefix("out:"))

        assert not await fork_client.stop_fork(stubborn, 0.2)
        await fork_client.stop_fork(parent, 2)

        assert await stubborn.wait_ended(60) == -signal.SIGKILL
        wait_until(lambda: not is_alive(child), what="the end of the grandchild")

    with_fork_client(tmp_path, scenario)


def test_a_fork_has_only_its_environment_and_its_socket(tmp_path: Path) -> None:
    async def scenario(fork_client: ForkClient) -> None:
        said: list[str] = []
        with socket.create_server(("127.0.0.1", 0)) as sock:
            assert await fork(fork_client, "facts", said, sockets=[sock]).wait_ended(60) == 0
            assert said[:2] == ["out:['ONLY']", f"out:{sock.getsockname()[1]}"]
        assert (
            int(said[2].removeprefix("out:")) <= 7
        )  # three standard streams, ready, the socket, and the descriptor of the listing

    with_fork_client(tmp_path, scenario)


def test_each_fork_runs_the_code_on_disk(tmp_path: Path) -> None:
    async def scenario(fork_client: ForkClient) -> None:
        said: list[str] = []
        for version in ("1", "22"):
            (tmp_path / "changing.py").write_text(f"VERSION = {version!r}")
            assert await fork(fork_client, "version", said).wait_ended(60) == 0
        assert said == ["out:1", "out:22"]

    with_fork_client(tmp_path, scenario)


def test_the_children_end_with_the_fork_server(tmp_path: Path) -> None:
    async def scenario(fork_client: ForkClient) -> None:
        process = fork(fork_client, "stubborn")
        assert await process.wait_ready(60)
        os.kill(fork_client.pid or 0, signal.SIGKILL)

        assert await process.wait_ended(60) == -signal.SIGKILL
        wait_until(lambda: not is_alive(process.pid), what="the end of the child")

    with_fork_client(tmp_path, scenario)


def test_the_code_that_functions_import_is_loaded_once_and_again_on_renewal(tmp_path: Path) -> None:
    """A fork has that code as of the last renewal, and loads its own file itself."""
    for name in ("shared", "functions"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / "functions" / "broken.py").write_text("import shared.missing\n")
    (tmp_path / "functions" / "first.py").write_text("import shared.fact\n")

    def save(text: str) -> None:
        (tmp_path / "shared" / "fact.py").write_text(text)

    async def scenario(fork_client: ForkClient) -> None:
        said: list[str] = []

        async def ask() -> str:
            assert await fork(fork_client, "fact", said).wait_ended(60) == 0
            return said[-1]

        save("FACT = 'one'")
        await fork_client.renew()
        assert await ask() == "out:one"
        save("FACT = 'second'")
        assert await ask() == "out:one"
        await fork_client.renew()
        assert await ask() == "out:second"

    with_fork_client(tmp_path, scenario)


def test_forks_of_an_old_server_continue_after_a_renewal_and_it_ends_with_the_last(tmp_path: Path) -> None:
    async def scenario(fork_client: ForkClient) -> None:
        old = fork_client.pid or 0
        process = fork(fork_client, "ready")
        assert await process.wait_ready(60)

        await fork_client.renew()

        assert is_alive(process.pid)
        assert await fork_client.stop_fork(process, 60)
        async with asyncio.timeout(60):
            while is_alive(old):  # noqa: ASYNC110 - a process sets no event
                await asyncio.sleep(0.01)
        assert await fork(fork_client, "ends", code=0).wait_ended(60) == 0

    with_fork_client(tmp_path, scenario)


def test_after_a_renewal_that_does_not_load_the_code_of_before_goes_on(tmp_path: Path) -> None:
    async def scenario(fork_client: ForkClient) -> None:
        (tmp_path / "functions").mkdir()
        (tmp_path / "functions" / "__init__.py").write_text("raise SystemExit('no code')")
        before = fork_client.pid

        with pytest.raises(NotReady, match="keep running the earlier code"):
            await fork_client.renew()

        assert fork_client.pid == before
        assert await fork(fork_client, "ends", code=0).wait_ended(60) == 0

    with_fork_client(tmp_path, scenario)


def test_broken_shared_code_is_reported_by_the_function_that_needs_it(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "__init__.py").write_text("")
    (tmp_path / "shared" / "fact.py").write_text("def broken(:")

    async def scenario(fork_client: ForkClient) -> None:
        said: list[str] = []
        await fork_client.renew()
        assert await fork(fork_client, "fact", said).wait_ended(60) == 1
        assert "err:SyntaxError: invalid syntax" in said
        assert await fork(fork_client, "ends", code=0).wait_ended(60) == 0

    with_fork_client(tmp_path, scenario)


def test_an_endless_line_does_not_hide_the_end_of_the_fork_server(tmp_path: Path) -> None:
    """A line longer than the 1 MB buffer once stopped the reader, so the end went unnoticed."""
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.stderr.write('x' * (3 << 20) + chr(10))")
    said: list[str] = []

    async def run() -> int:
        lost = asyncio.get_running_loop().create_future()
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{tmp_path}:{ROOT}"}
        fork_client = ForkClient(tmp_path, environment, said.append, lost.set_result)
        fork_client.start()
        try:
            async with asyncio.timeout(60):
                await fork_client.wait_loaded()
                os.kill(fork_client.pid or 0, signal.SIGKILL)
                return await lost
        finally:
            await fork_client.stop()

    assert asyncio.run(run()) == -signal.SIGKILL
    assert said
