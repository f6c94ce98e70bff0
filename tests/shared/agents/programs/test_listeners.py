"""Sockets that listen inside sandboxes: the way of a program without a network to the gateway."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import uvloop

from emulator.proving.child import children_of
from shared.agents.programs import containment, listeners, netns_listener
from shared.agents.programs.containment import GatewaySocket, ProgramCommand
from shared.agents.programs.listeners import Listeners
from shared.agents.programs.process import Program
from shared.agents.programs.sandboxes import Sandboxes
from tests.containments import CONTAINMENTS
from tests.liveness import is_alive

assert netns_listener  # its code runs in other processes

HAS_LEASH = pytest.mark.parametrize("held", [each for each in CONTAINMENTS.values() if each.is_leash])
PORT = 4100
ASKS = """
import socket, sys
with socket.create_connection(("127.0.0.1", 4100)) as there:
    there.sendall(b"one")
    there.shutdown(socket.SHUT_WR)
    print(there.recv(100).decode())
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), 1)
except OSError:
    print("refused")
"""


class Gateway:
    """Answers in capitals, and counts its servers."""

    def __init__(self):
        self.servers = []

    async def serve(self, listening, path):
        self.servers.append(await asyncio.start_server(self._shout, sock=listening))
        return self.servers[-1]

    async def _shout(self, reader, writer):
        writer.write((await reader.read()).upper())
        writer.close()


class Sessions:
    """Runs programs of sessions that have the gateway of this test."""

    def __init__(self, folder, serve):
        (folder / "agent").mkdir()
        shown = containment.readable_paths([sys.executable], [], {}, [])
        gateway = GatewaySocket(folder / "no.sock", PORT)
        self._command = ProgramCommand([], folder / "agent", {}, shown, gateway)
        self.sandboxes = Sandboxes(folder / "sandboxes", serve)

    async def run(self, held, session, other_port=1):
        """What the program said, and the process that held it in."""
        words = [sys.executable, "-I", "-c", ASKS, str(other_port)]
        command = replace(self._command, words=words, session=session)
        program = await Program.start(command, held, line_limit=1000, sandboxes=self.sandboxes)
        await program.wait()
        said = (await program.stdout.read()).decode()
        await program.end()
        return said, program.pid


def run(what, tmp_path, runner, serve=None):
    async def within():
        gateway = Gateway()
        sessions = Sessions(tmp_path, serve or gateway.serve)
        try:
            async with asyncio.timeout(60):
                return await what(sessions, gateway)
        finally:
            await sessions.sandboxes.close()

    return runner(within())


@HAS_LEASH
@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_turns_of_a_session_reach_the_gateway_through_one_socket_and_reach_nothing_else(tmp_path, held, runner):
    async def what(sessions, gateway):
        with socket.create_server(("127.0.0.1", 0)) as private:
            found = [await sessions.run(held, name, private.getsockname()[1]) for name in ("a", "b", "a")]
        return found, len(gateway.servers)

    (first, other, again), servers = run(what, tmp_path, runner)
    assert {first[0], other[0], again[0]} == {"ONE\nrefused\n"}
    assert (first[1] == again[1], first[1] == other[1], servers) == (True, False, 2)


@HAS_LEASH
def test_the_way_out_closes_with_its_sandbox(tmp_path, held):
    async def what(sessions, gateway):
        await sessions.run(held, "a")
        assert gateway.servers[0].is_serving()
        await sessions.sandboxes.close()
        return gateway.servers[0].is_serving()

    assert run(what, tmp_path, asyncio.run) is False


@HAS_LEASH
def test_a_sandbox_without_its_way_out_runs_no_program_and_ends(tmp_path, held):
    async def refuse(listening, path):
        listening.close()
        raise OSError("no more files")

    async def what(sessions, _):
        return await sessions.run(held, "a")

    said, pid = run(what, tmp_path, asyncio.run, refuse)
    assert (said, is_alive(pid)) == ("", False)


def until_apart(pid):
    """Wait until *pid* has a network of its own."""
    own = Path("/proc/self/ns/net").stat().st_ino
    while Path(f"/proc/{pid}/ns/net").stat().st_ino == own:
        time.sleep(0.001)


def test_a_process_with_the_network_of_this_host_gets_no_socket():
    async def what():
        made = Listeners()
        try:
            return await made.listen(os.getpid(), PORT)
        finally:
            made.close()

    with pytest.raises(ProcessLookupError):
        asyncio.run(what())


def test_a_look_at_a_sandbox_that_is_gone_leaves_no_process():
    """Python warns of a process that nobody waits for, in whatever test runs then."""
    before = children_of(os.getpid())
    with pytest.raises(ProcessLookupError):
        listeners._can_listen(os.getpid())  # as if it were a sandbox that has the network of this process
    assert children_of(os.getpid()) == before


DIES_ONCE = """
import os, runpy, sys
if not os.path.exists(__file__ + ".died"):
    open(__file__ + ".died", "w").close()
    sys.exit()
runpy.run_path({maker!r}, run_name="__main__")
"""


@HAS_LEASH
def test_a_request_fails_when_the_process_that_makes_sockets_dies_and_the_next_one_starts_another(tmp_path, held):
    maker = tmp_path / "maker.py"
    maker.write_text(DIES_ONCE.format(maker=netns_listener.__file__))
    inside = subprocess.Popen(["unshare", "--net", "--user", "cat"], stdin=subprocess.PIPE)

    async def what():
        made = Listeners(maker)
        try:
            with pytest.raises(OSError):  # noqa: PT011 - in the kernel's words, or in ours
                await made.listen(inside.pid, PORT)
            with await made.listen(inside.pid, PORT) as listening:
                return listening.getsockname()
        finally:
            made.close()

    with inside:
        until_apart(inside.pid)
        assert asyncio.run(what()) == ("127.0.0.1", PORT)
        inside.stdin.close()
