"""A program that sends what no client sends, and hosts that do what no host should."""

import asyncio
import io
import json

import aiohttp
import pytest
from aiohttp import web

from shared.db.engine.connection import rows
from shared.turns.gateway import proxy
from shared.turns.gateway.model_gateway import ModelGateway
from tests.shared.turns.gateway.model_host import KEY, TURN, hosting, reply, running, stream_of
from tests.support import column

ASKED = {"model": "m-1", "stream": True}


def through(db, tmp_path, serve, use, upstream="anthropic", **more):
    """What *use* returns, with a program and its host."""

    async def go():
        async with hosting(serve) as host, running(db, tmp_path / "run", host, upstream, **more) as program:
            return await asyncio.wait_for(use(program, host), 60)

    return asyncio.run(go())


async def send(program):
    async with program.post("/v1/messages", json=ASKED) as answer:
        return answer.status


async def raw(program, text):
    """The first line of the answer to these bytes."""
    reader, writer = await asyncio.open_unix_connection(program.socket)
    writer.write(text)
    found = await reader.readline()
    writer.close()
    return found.decode()


HEAD = "POST /anthropic/v1/messages HTTP/1.1\r\nHost: x\r\nx-api-key: {token}\r\n"
SMUGGLED = "GET /anthropic/v1/models HTTP/1.1\r\nHost: x\r\nx-api-key: {token}\r\n\r\n"


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        HEAD + "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
        HEAD + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        HEAD + "Content-Length: +4\r\n\r\nabcd",
        HEAD + "x-bad : 1\r\n\r\n",
        HEAD + "x-bad: 1\n y\r\n\r\n",
    ],
)
def test_a_request_of_two_minds_reaches_no_host(db, tmp_path, text):
    async def use(program, host):
        return await raw(program, text.format(token=program.token).encode()), len(host.requests)

    line, requests = through(db, tmp_path, reply(200), use)
    assert " 400 " in line
    assert requests == 0


def test_an_address_in_the_request_line_names_no_other_host(db, tmp_path):
    async def use(program, host):
        text = HEAD.replace("POST ", "POST http://example.com").format(token=program.token)
        body = json.dumps(ASKED)
        line = await raw(program, f"{text}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        return line, [(each.host, each.headers.get("x-api-key")) for each in host.requests], host.url

    line, requests, url = through(db, tmp_path, reply(200), use)
    assert [(f"http://{host}", key) for host, key in requests] in ([], [(url, KEY)])
    assert (" 200 " in line) == bool(requests)


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_of_100_megabytes_is_refused(db, tmp_path, is_chunked):
    async def pieces():
        for _ in range(100):
            yield b" " * 1024 * 1024

    async def use(program, host):
        data = pieces() if is_chunked else io.BytesIO(b" " * (100 * 1024 * 1024))
        try:
            async with program.post("/v1/messages", data=data) as answer:
                return answer.status, len(host.requests)
        except aiohttp.ClientConnectionError:  # it may see the end of the connection before the answer
            return 413, len(host.requests)

    assert through(db, tmp_path, reply(200), use) == (413, 0)


def test_a_body_of_20_megabytes_arrives_whole(db, tmp_path):
    body = json.dumps({"model": "m", "system": "x" * 20 * 1024 * 1024}).encode()

    async def use(program, host):
        async with program.post("/v1/messages", data=io.BytesIO(body)) as answer:
            return answer.status, host.bodies == [body]

    assert through(db, tmp_path, reply(200), use) == (200, True)


def test_a_reader_that_stands_still_holds_back_its_own_stream_only(db, tmp_path):
    sent = []

    async def endless(request):
        if b"slow" not in await request.read():
            return await stream_of("messages")(request)
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await answer.prepare(request)
        for _ in range(4000):
            await answer.write(b"data: " + b"x" * 16_000 + b"\n\n")
            sent.append(16_000)
        return answer

    async def use(program, host):
        async with program.post("/v1/messages", json={"model": "slow", "stream": True}) as slow:
            await slow.content.readany()
            for _ in range(20):
                async with program.post("/v1/messages", json=ASKED) as answer:
                    assert (await answer.read()).rstrip().endswith(b'"message_stop"}')
            return sum(sent)

    assert through(db, tmp_path, endless, use) < 32_000_000


def test_a_host_that_never_answers_is_given_up(db, tmp_path, monkeypatch):
    async def never(_):
        await asyncio.Event().wait()

    async def begins(request):
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await answer.prepare(request)
        await answer.write(b"data: {}\n\n")
        await asyncio.Event().wait()

    async def use(program, host):
        program.gateway._proxy._silence_s = 0.2
        async with program.post("/v1/messages", json=ASKED) as answer:
            first = answer.status
        host.serve = begins
        async with program.post("/v1/messages", json=ASKED) as answer:
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()
        return first, [each.reason for each in program.refusals]

    assert through(db, tmp_path, never, use) == (502, ["unreachable", "cut"])


def test_an_error_in_the_middle_of_a_stream_is_told_to_the_runner(db, tmp_path):
    async def breaking(request):
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await answer.prepare(request)
        await answer.write(b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n')
        return answer

    async def use(program, host):
        async with program.post("/v1/messages", json=ASKED) as answer:
            await answer.read()
        return [each.reason for each in program.refusals]

    assert through(db, tmp_path, breaking, use) == ["overloaded"]


def test_a_stream_without_a_type_is_counted_as_one(db, conn, tmp_path):
    async def bare(request):
        body = (b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\n', b"data: [DONE]\n\n")
        return web.Response(body=b"".join(body), headers={"content-type": "text/plain"})

    async def use(program, host):
        async with program.post("/chat/completions", json=ASKED) as answer:
            await answer.read()

    through(db, tmp_path, bare, use, "openai")
    assert rows(conn, "SELECT input, output FROM usage") == [(3, 4)]


def test_a_turn_makes_so_many_requests_at_once_and_no_more(db, tmp_path):
    async def use(program, host):
        all_there = asyncio.Event()

        async def waits(_):
            if len(host.requests) == proxy.MOST_REQUESTS:
                all_there.set()
            await asyncio.Event().wait()

        host.serve = waits
        first = [asyncio.create_task(send(program)) for _ in range(proxy.MOST_REQUESTS)]
        await all_there.wait()
        async with program.post("/v1/messages", json=ASKED) as answer:
            status = answer.status
        program.gateway.end(program.token)
        await asyncio.gather(*first, return_exceptions=True)
        return status, len(host.requests)

    assert through(db, tmp_path, reply(200), use) == (429, proxy.MOST_REQUESTS)


def test_a_turn_that_ends_while_a_body_comes_makes_no_request(db, tmp_path):
    async def use(program, host):
        async def pieces():  # asked for by "100 Continue", when the gateway has let the request in
            yield b'{"model": "m", '
            program.begin(TURN._replace(turn="turn_2"))
            yield b'"stream": true}'

        async with program.post("/v1/messages", data=pieces(), expect100=True) as answer:
            return answer.status, len(host.requests)

    assert through(db, tmp_path, reply(200), use) == (402, 0)


def test_nothing_of_a_request_and_no_key_is_in_the_log_or_in_a_row(db, conn, tmp_path, capfd):
    secret = "a-private-sentence-of-a-person"

    async def use(program, host):
        for serve in (stream_of("messages"), reply(500, f'{{"error": "{secret} {KEY}"}}'), reply(401)):
            host.serve = serve
            async with program.post("/v1/messages", json={**ASKED, "system": secret}) as answer:
                await answer.read()
        return program.token

    token = through(db, tmp_path, reply(200), use)
    said = (
        "".join(capfd.readouterr()) + str(rows(conn, "SELECT * FROM usage")) + str(rows(conn, "SELECT * FROM events"))
    )
    assert column(conn, "SELECT count(*) FROM usage") == [1]
    assert "gateway.refused" in said
    assert [each for each in (secret, KEY, token) if each in said] == []


def test_two_first_programs_at_once_get_one_server(db, tmp_path):
    async def use(program, host):
        gateway = ModelGateway(tmp_path / "two", None, None, timezone="UTC", on_notice=print)
        one, two = await asyncio.gather(*(gateway.open(TURN, None, has_sandbox=True) for _ in range(2)))
        await gateway.close()
        return one.socket == two.socket, one.token == two.token

    assert through(db, tmp_path, reply(200), use) == (True, False)
