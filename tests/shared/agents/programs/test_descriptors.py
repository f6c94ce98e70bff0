"""The descriptors of a program: its three pipes and no other, whatever our process holds."""

import asyncio
import json
import os
import socket
import sys

import pytest

from shared.agents.programs import containment
from shared.agents.programs.containment import GatewaySocket, ProgramCommand
from shared.agents.programs.process import Program
from shared.agents.programs.sandboxes import Sandboxes
from tests.containments import CONTAINMENTS

# The listing's own descriptor is closed when its link is looked at.
LIST = """
import json, os
links = ["/proc/self/fd/" + each for each in os.listdir("/proc/self/fd")]
print(json.dumps(sorted(int(os.path.basename(each)) for each in links if os.path.islink(each))))
"""
WITH_GATEWAY = {"without the gateway": False, "with the gateway": True}


@pytest.fixture
def inheritable():
    """Descriptors that a child inherits unless it closes them, as a function's own listening socket would be."""
    with socket.create_server(("127.0.0.1", 0)) as low, socket.create_server(("127.0.0.1", 0)) as other:
        low.set_inheritable(True)
        high = os.dup2(other.fileno(), 200)
        yield (low.fileno(), high)
        os.close(high)


def command(tmp_path, *, is_with_gateway, session=None):
    (tmp_path / "agent").mkdir(exist_ok=True)
    words = [sys.executable, "-I", "-c", LIST]
    shown = containment.readable_paths(words, [], {}, [])
    gateway = GatewaySocket(tmp_path / "gateway.sock", 4100) if is_with_gateway else None
    return ProgramCommand(words, tmp_path / "agent", {"PATH": os.environ["PATH"]}, shown, gateway, session=session)


async def descriptors(program):
    said, errors = await program.stdout.read(), await program.stderr.read()
    await program.end()
    assert errors == b""
    return json.loads(said)


@pytest.mark.parametrize("is_with_gateway", WITH_GATEWAY.values(), ids=WITH_GATEWAY)
@pytest.mark.parametrize("held", CONTAINMENTS.values(), ids=CONTAINMENTS)
def test_a_program_has_its_pipes_and_nothing_else(inheritable, tmp_path, held, is_with_gateway):
    async def go():
        gateway = await asyncio.start_unix_server(lambda *_: None, tmp_path / "gateway.sock")
        wanted = command(tmp_path, is_with_gateway=is_with_gateway)
        found = await descriptors(await Program.start(wanted, held, line_limit=10_000))
        gateway.close()
        return found

    assert asyncio.run(go()) == [0, 1, 2]


@pytest.mark.parametrize("is_with_gateway", WITH_GATEWAY.values(), ids=WITH_GATEWAY)
def test_so_it_has_in_a_sandbox_that_serves_many_turns(inheritable, tmp_path, is_with_gateway):
    """Its first process has more: the line to dispatch, the filter, its own file, and what bubblewrap tells of it."""

    async def go():
        async def serve(sock, _):
            return await asyncio.start_server(lambda *_: None, sock=sock)

        sandboxes = Sandboxes(tmp_path / "sandboxes", serve)
        wanted = command(tmp_path, is_with_gateway=is_with_gateway, session="a")
        found = []
        for _ in range(2):
            started = await Program.start(wanted, containment.available(), line_limit=10_000, sandboxes=sandboxes)
            await started.wait()
            found.append(await descriptors(started))
        await sandboxes.close()
        return found

    assert asyncio.run(go()) == [[0, 1, 2], [0, 1, 2]]
