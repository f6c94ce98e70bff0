"""The launcher: the way of a program without a network to the gateway's socket."""

import asyncio
import os
import sys

from shared.agents.programs import containment, launcher
from shared.agents.programs.containment import GatewaySocket, ProgramCommand
from shared.agents.programs.process import Program
from tests.containments import CONTAINMENTS

assert launcher  # its code runs in other processes

CALLS = """
import socket, sys
found = []
for text in (b"one", b"two" * 100_000):
    with socket.create_connection(("127.0.0.1", 4100)) as there:
        there.sendall(text)
        there.shutdown(socket.SHUT_WR)
        said = b"".join(iter(lambda: there.recv(65536), b""))
        found.append(said == text.upper())
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), 1)
    found.append("reached")
except OSError:
    found.append("refused")
print(found)
"""


async def shout(reader, writer):
    """The gateway of this test: it answers in capitals when it has heard all."""
    writer.write((await reader.read()).upper())
    writer.close()
    await writer.wait_closed()


async def output(held, words, folder, gateway):
    shown = containment.readable_paths(words, [], {}, [])
    command = ProgramCommand(words, folder, {"PATH": os.environ["PATH"]}, shown, gateway)
    program = await Program.start(command, held, line_limit=1000)
    said, errors = await program.stdout.read(), await program.stderr.read()
    await program.end()
    return said.decode(), errors.decode()


def test_a_program_reaches_the_gateway_and_no_other_port(tmp_path):
    """On a host without a leash the program has the network of the host, and the gateway listens there itself."""
    held = next(iter(CONTAINMENTS.values()))
    (tmp_path / "agent").mkdir()

    async def go():
        private = await asyncio.start_server(shout, "127.0.0.1", 0)
        port = private.sockets[0].getsockname()[1]
        gateway = await asyncio.start_unix_server(shout, tmp_path / "gateway.sock")
        loopback = None if held.is_leash else await asyncio.start_server(shout, "127.0.0.1", 4100)
        words = [sys.executable, "-I", "-c", CALLS, str(port)]
        found = await output(held, words, tmp_path / "agent", GatewaySocket(tmp_path / "gateway.sock", 4100))
        for server in (private, gateway, loopback):
            if server is not None:
                server.close()
                await server.wait_closed()
        return found

    last = "refused" if held.is_leash else "reached"
    assert asyncio.run(go()) == (f"[True, True, '{last}']\n", "")
