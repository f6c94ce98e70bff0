import asyncio
import socket
import stat

import aiohttp

from shared.turns.gateway import server
from shared.turns.gateway.server import ProgramServer


async def greet(scope, receive, send):
    body = scope["path"].encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


async def ask(served, path, url="http://gateway"):
    async with (
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(served.path))) as client,
        client.get(url + path) as answer,
    ):
        return answer.status, await answer.text()


def test_applications_are_found_by_the_first_part_of_the_path(tmp_path):
    async def go():
        server = ProgramServer(tmp_path / "run" / "s.sock")
        server.mount("mcp", greet)
        await asyncio.gather(server.start(), server.start())
        await server.start()
        mode = [stat.S_IMODE(path.stat().st_mode) for path in (server.path, server.path.parent)]
        found = await ask(server, "/mcp/x"), (await ask(server, "/"))[0], (await ask(server, "/mcpx"))[0], mode
        await server.close()
        return *found, server.path.exists()

    assert asyncio.run(go()) == ((200, "/mcp/x"), 404, 404, [0o600, 0o700], False)


def test_a_socket_that_a_killed_process_left_is_replaced(tmp_path):
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "s.sock"))
    left.close()

    async def go():
        server = ProgramServer(tmp_path / "s.sock")
        await server.start()
        found = await ask(server, "/")
        await server.close()
        return found[0]

    assert asyncio.run(go()) == 404


def test_loopback_serves_this_machine_only(tmp_path):
    async def go():
        server = ProgramServer(tmp_path / "s.sock")
        server.mount("mcp", greet)
        port = await server.start_loopback()
        assert port == await server.start_loopback()
        assert [each.getsockname()[0] for each in server._loopback.sockets] == ["127.0.0.1"]
        async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{port}/mcp") as answer:
            status = answer.status
        await server.close()
        return status

    assert asyncio.run(go()) == 200


def test_a_program_that_opens_thousands_of_connections_does_not_take_all_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)

    async def go():
        served = ProgramServer(tmp_path / "s.sock")
        served.mount("mcp", greet)
        await served.start()
        opened = [await asyncio.open_unix_connection(tmp_path / "s.sock") for _ in range(5)]
        ended = [await reader.read() for reader, _ in opened[3:]]
        for _, writer in opened[:1]:
            writer.close()
            await writer.wait_closed()
        while len(served._state.connections) > 2:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        answered = await ask(served, "/mcp")
        for _, writer in opened[1:]:
            writer.close()
        await served.close()
        return ended, answered

    assert asyncio.run(asyncio.wait_for(go(), 20)) == ([b"", b""], (200, "/mcp"))
