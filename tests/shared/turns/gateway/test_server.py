import asyncio
import socket
import stat

import aiohttp
import pytest

from shared.runtime import connections
from shared.turns.gateway import server
from shared.turns.gateway.server import ProgramServer


async def greet(scope, receive, send):
    body = scope["path"].encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


async def ask(served, path, url="http://gateway"):
    async with (
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(served.path("door")))) as client,
        client.get(url + path) as answer,
    ):
        return answer.status, await answer.text()


def test_applications_are_found_by_the_first_part_of_the_path(tmp_path):
    async def go():
        server = ProgramServer(tmp_path / "run")
        server.mount("mcp", greet)
        await asyncio.gather(server.open("door"), server.open("door"))
        await server.open("door")
        path = server.path("door")
        mode = [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent)]
        found = await ask(server, "/mcp/x"), (await ask(server, "/"))[0], (await ask(server, "/mcpx"))[0], mode
        await server.close()
        return *found, path.exists()

    assert asyncio.run(go()) == ((200, "/mcp/x"), 404, 404, [0o600, 0o700], False)


def test_a_socket_that_a_killed_process_left_is_replaced(tmp_path):
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "door"))
    left.close()

    async def go():
        server = ProgramServer(tmp_path)
        await server.open("door")
        found = await ask(server, "/")
        await server.close()
        return found[0]

    assert asyncio.run(go()) == 404


def test_loopback_serves_this_machine_only(tmp_path):
    async def go():
        server = ProgramServer(tmp_path / "run")
        server.mount("mcp", greet)
        port = await server.start_loopback("all")
        assert port == await server.start_loopback("all")
        assert [each.getsockname()[0] for each in server._loopback.sockets] == ["127.0.0.1"]
        async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{port}/mcp") as answer:
            status = answer.status
        await server.close()
        return status

    assert asyncio.run(go()) == 200


async def opened(served, door, count):
    return [await asyncio.open_unix_connection(served.path(door)) for _ in range(count)]


def test_a_door_that_was_shut_is_opened_again(tmp_path):
    async def go():
        served = ProgramServer(tmp_path / "run")
        await served.open("door")
        served.shut("door")
        served.shut("door")
        was_there = served.path("door").exists()
        await served.open("door")
        found = await ask(served, "/")
        await served.close()
        return was_there, found[0]

    assert asyncio.run(go()) == (False, 404)


def test_a_program_that_opens_thousands_of_connections_shuts_out_nobody(tmp_path):
    """Its own oldest silent ones give way, and those of others stay."""

    async def go():
        served = ProgramServer(tmp_path / "run")
        served.mount("mcp", greet)
        for door in ("door", "hostile"):
            await served.open(door)
        (kept_reader, kept_writer), *_ = kept = await opened(served, "door", 3)
        hostile = await opened(served, "hostile", 1100)
        answered = await ask(served, "/mcp")
        of_hostile = len(served._states["hostile"].connections)
        kept_writer.write(b"GET /mcp/kept HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        said = await kept_reader.read()
        for _, writer in [*kept, *hostile]:
            writer.transport.abort()
        await served.close()
        return answered, of_hostile, said[:15], b"/mcp/kept" in said

    found = asyncio.run(asyncio.wait_for(go(), 20))
    assert found == ((200, "/mcp"), server.MOST_OF_A_DOOR, b"HTTP/1.1 200 OK", True)


def test_all_doors_together_have_a_limit_and_the_fullest_gives_way(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 10)

    async def go():
        served = ProgramServer(tmp_path / "run")
        served.mount("mcp", greet)
        for door in ("door", "one", "two"):
            await served.open(door)
        hostile = [*await opened(served, "one", 7), *await opened(served, "two", 3)]
        while sum(len(each.connections) for each in served._states.values()) < 10:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        answered = await ask(served, "/mcp")
        found = len(served._states["one"].connections), len(served._states["two"].connections)
        for _, writer in hostile:
            writer.transport.abort()
        await served.close()
        return answered, found

    assert asyncio.run(asyncio.wait_for(go(), 20)) == ((200, "/mcp"), (6, 3))


@pytest.mark.parametrize("rest", [b"X: " + b"x" * 40_000, b"".join(b"X%d: y\r\n" % each for each in range(200))])
def test_a_head_that_is_too_large_is_refused(tmp_path, rest):
    async def go():
        served = ProgramServer(tmp_path / "run")
        await served.open("door")
        ((reader, writer),) = await opened(served, "door", 1)
        writer.write(b"GET /mcp HTTP/1.1\r\nHost: x\r\n" + rest + b"\r\n\r\n")
        said = await reader.read()
        writer.close()
        await served.close()
        return said.partition(b"\r\n")[0]

    assert asyncio.run(asyncio.wait_for(go(), 20)).startswith(b"HTTP/1.1 431 ")


def test_a_connection_that_says_nothing_for_too_long_is_closed(tmp_path):
    async def go():
        served = ProgramServer(tmp_path / "run")
        await served.open("door")
        ((reader, writer),) = await opened(served, "door", 1)
        while "door" not in served._states:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        served._states["door"].close_late(asyncio.get_running_loop().time() + connections.HEAD_S + 1)
        said = await reader.read()
        writer.close()
        await served.close()
        return said

    assert asyncio.run(asyncio.wait_for(go(), 20)) == b""
