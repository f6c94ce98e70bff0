"""Requests of a program through the gateway to a host on loopback, over real sockets."""

import asyncio
import json

import aiohttp
import pytest
from aiohttp import web

from shared.db.engine.connection import rows
from tests.shared.turns.gateway.model_host import EVENTS, KEY, NAMES, PATHS, hosting, reply, running, stream_of
from tests.support import column

ASKED = {"model": "m-1", "stream": True}


@pytest.fixture
def sockets(tmp_path):
    return tmp_path / "run"


def through(db, sockets, serve, use, upstream="anthropic", **more):
    """What *use* returns, with a program and its host."""

    async def go():
        async with hosting(serve) as host, running(db, sockets, host, upstream, **more) as program:
            return await asyncio.wait_for(use(program, host), 20)

    return asyncio.run(go())


@pytest.mark.parametrize("name", PATHS)
def test_a_stream_is_passed_on_byte_for_byte_and_counted(db, conn, sockets, name):
    async def use(program, host):
        async with program.post(PATHS[name], json=ASKED) as answer:
            return answer.status, answer.headers, await answer.read()

    status, headers, body = through(db, sockets, stream_of(name), use, NAMES[name])
    assert (status, headers["content-type"]) == (200, "text/event-stream")
    assert headers["anthropic-ratelimit-x"] == "7"
    assert body.strip() == (EVENTS / f"{name}.sse").read_bytes().strip()
    (row,) = rows(conn, "SELECT turn, agent, session, model, paid_by, requests, cost FROM usage")
    assert row == ("turn_1", "assistant", "session_1", "m-1", "key", 1, None)
    (counts,) = rows(conn, "SELECT input, output, cache_read, cache_write FROM usage")
    assert counts == (12, 57, 200, 30 if name == "messages" else 0)


def test_only_the_login_of_a_request_is_changed(db, sockets):
    sent = {
        "anthropic-beta": "a,b",
        "anthropic-version": "2023-06-01",
        "x-claude-code-session-id": "s",
        "cookie": "c=1",
    }
    body = json.dumps({"model": "m", "system": "ü" * 10_000}).encode()

    async def use(program, host):
        async with program.post("/v1/messages?beta=true&x=%2F", data=body, headers=sent) as answer:
            await answer.read()
        return host.requests[0].headers, host.requests[0].raw_path, host.bodies[0], program.token

    headers, path, got, token = through(db, sockets, reply(200), use)
    assert path == "/v1/messages?beta=true&x=%2F"
    assert got == body
    assert headers["x-api-key"] == KEY
    assert {name: headers[name] for name in list(sent)[:3]} == dict(list(sent.items())[:3])
    assert "cookie" not in headers
    assert token not in str(headers)


def test_the_login_of_a_plan_is_a_bearer_with_its_beta(db, conn, sockets):
    async def use(program, host):
        assert program.token.startswith("sk-ant-oat01-")
        bearer = {"authorization": f"Bearer {program.token}", "x-api-key": "", "anthropic-beta": "a"}
        async with program.post("/v1/messages", json=ASKED, headers=bearer) as answer:
            await answer.read()
        return host.requests[0].headers

    login = {"anthropic_api_key": None, "claude_code_oauth_token": "sk-ant-oat01-the-operators-login"}
    headers = through(db, sockets, stream_of("messages"), use, **login)
    assert headers["authorization"] == "Bearer sk-ant-oat01-the-operators-login"
    assert headers.getall("anthropic-beta") == ["a", "oauth-2025-04-20"]
    assert "x-api-key" not in headers
    assert column(conn, "SELECT paid_by FROM usage") == ["plan"]


def test_a_streamed_chat_request_asks_for_the_counts(db, sockets):
    async def use(program, host):
        async with program.post("/chat/completions", json=ASKED) as answer:
            await answer.read()
        return json.loads(host.bodies[0])

    got = through(db, sockets, stream_of("chat"), use, "openai")
    assert got == {**ASKED, "stream_options": {"include_usage": True}}


@pytest.mark.parametrize("name", PATHS)
def test_a_stream_without_its_last_event_breaks_off(db, conn, sockets, name):
    async def use(program, host):
        async with program.post(PATHS[name], json=ASKED) as answer:
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()
        return program.refusals

    (refusal,) = through(db, sockets, stream_of(name, without_end=True), use, NAMES[name])
    assert refusal.reason == "cut"
    assert column(conn, "SELECT requests FROM usage") == [1]
    assert column(conn, "SELECT input > 0 AND output > 0 FROM usage") == [1]


def test_a_host_that_drops_the_connection_breaks_the_answer_off(db, sockets):
    async def drop(request):
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await answer.prepare(request)
        await answer.write(b"data: {}\n\n")
        request.transport.abort()
        return answer

    async def use(program, host):
        async with program.post("/v1/messages", json=ASKED) as answer:
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()
        return [each.reason for each in program.refusals]

    assert through(db, sockets, drop, use) == ["cut"]


def stalling():
    async def serve(request):
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await answer.prepare(request)
        await answer.write(b'data: {"type":"message_start","message":{"usage":{"input_tokens":9}}}\n\n')
        await asyncio.Event().wait()

    return serve


def test_when_a_program_goes_away_the_host_is_left_too_and_what_it_cost_is_written(db, conn, sockets):
    async def use(program, host):
        answer = await program.post("/v1/messages", json=ASKED)
        await answer.content.readline()
        answer.close()
        await host.was_cut.wait()

    through(db, sockets, stalling(), use)
    assert rows(conn, "SELECT input, output FROM usage") == [(9, 1)]


def test_the_stop_of_the_server_does_not_wait_for_a_program_that_reads_nothing(db, sockets):
    async def flood(request):
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await answer.prepare(request)
        while True:
            await answer.write(b": " + b"x" * 100_000 + b"\n\n")

    async def use(program, host):
        async with program.post("/v1/messages", json=ASKED):
            for _ in range(50):  # the socket to the program is full
                await asyncio.sleep(0)
            await asyncio.wait_for(program.gateway.close(), 10)

    through(db, sockets, flood, use)


def test_the_end_of_a_turn_cuts_its_request_off_and_the_token_is_refused(db, sockets):
    async def use(program, host):
        async with program.post("/v1/messages", json=ASKED) as answer:
            await answer.content.readline()
            program.gateway.end(program.token)
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()
        await host.was_cut.wait()
        async with program.post("/v1/messages", json=ASKED) as answer:
            between = answer.status
        program.begin()
        program.gateway.close_program(program.token)
        async with program.post("/v1/messages", json=ASKED) as answer:
            return between, answer.status, len(host.requests)

    assert through(db, sockets, stalling(), use) == (402, 401, 1)


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/messages", {"x-api-key": "made-up"}, 401),
        ("/v1/messages", {"x-api-key": ""}, 401),
        ("/v1/organizations", {}, 404),
        ("/v1/messages/../files", {}, 404),
        ("/v1/messages/batches", {}, 404),
        ("/../openai/v1/responses", {}, 404),
    ],
)
def test_nothing_else_is_passed_on(db, sockets, path, headers, status):
    async def use(program, host):
        async with program.post(path, json=ASKED, headers=headers) as answer:
            return answer.status, host.requests

    assert through(db, sockets, reply(200), use) == (status, [])


def test_an_agent_reaches_no_other_host_than_its_own(db, sockets):
    async def use(program, host):
        program.path = "/openai/v1"
        async with program.post("/responses", json=ASKED) as answer:
            return answer.status, host.requests

    assert through(db, sockets, reply(200), use) == (404, [])


def test_a_redirect_is_not_followed(db, sockets):
    async def use(program, host):
        async with program.post("/v1/messages", json=ASKED, allow_redirects=False) as answer:
            return answer.status, len(host.requests)

    assert through(db, sockets, reply(307, location="/elsewhere"), use) == (307, 1)


@pytest.mark.parametrize(
    ("status", "wait", "passed", "reason"),
    [
        (429, "2", "2", "rate_limited"),
        (429, "3600", None, "rate_limited"),
        (529, "3600", None, "overloaded"),
        (401, None, None, "login_refused"),
        (500, "soon", None, "overloaded"),
    ],
)
def test_an_error_is_passed_on_without_a_long_wait_and_told_to_the_runner(db, sockets, status, wait, passed, reason):
    async def use(program, host):
        async with program.post("/v1/messages", json=ASKED) as answer:
            return answer.status, answer.headers.get("retry-after"), program.refusals[0]

    headers = {"retry_after": wait} if wait else {}
    got, waits, refusal = through(db, sockets, reply(status, '{"error":1}', **headers), use)
    assert (got, waits, refusal.reason) == (status, passed, reason)
    assert (refusal.until_ms is not None) == (wait in ("2", "3600"))


def test_a_bad_request_is_between_the_program_and_its_model(db, conn, sockets):
    async def use(program, host):
        async with program.post("/v1/messages", json=ASKED) as answer:
            return answer.status, await answer.text(), program.refusals

    assert through(db, sockets, reply(400, '{"error":"no such model"}'), use) == (400, '{"error":"no such model"}', [])
    assert column(conn, "SELECT count(*) FROM usage") == [0]


def test_a_key_that_a_host_repeats_does_not_reach_the_program(db, sockets):
    async def use(program, host):
        async with program.post("/v1/messages", json=ASKED) as answer:
            return await answer.text()

    assert through(db, sockets, reply(401, f'{{"error":"bad key {KEY}"}}'), use) == '{"error":"bad key ***"}'


def test_a_host_that_is_not_there_is_a_502(db, sockets):
    async def use(program, host):
        async with program.post("/v1/messages", json=ASKED) as answer:
            return answer.status, [each.reason for each in program.refusals]

    found = through(db, sockets, reply(200), use, anthropic_base_url="http://127.0.0.1:1")
    assert found == (502, ["unreachable"])


def test_a_compressed_answer_is_counted_too(db, conn, sockets):
    async def compressed(request):
        answer = web.Response(body=(EVENTS / "messages.json").read_bytes(), content_type="application/json")
        answer.enable_compression(web.ContentCoding.gzip)
        return answer

    async def use(program, host):
        async with program.post("/v1/messages", json=ASKED) as answer:
            return await answer.read()

    assert through(db, sockets, compressed, use) == (EVENTS / "messages.json").read_bytes()
    assert column(conn, "SELECT output FROM usage") == [57]


def test_a_host_that_compresses_unasked_is_counted_too(db, conn, sockets):
    import gzip

    async def compressed(_):
        body = gzip.compress((EVENTS / "chat.json").read_bytes())
        return web.Response(body=body, headers={"content-encoding": "gzip", "content-type": "application/json"})

    async def use(program, host):
        async with program.post("/chat/completions", json={"model": "m"}) as answer:
            return await answer.read()

    assert through(db, sockets, compressed, use, "openai") == (EVENTS / "chat.json").read_bytes()
    assert column(conn, "SELECT output FROM usage") == [57]


def test_an_estimate_is_written_before_a_request_goes_out(db, conn, sockets):
    """So that it is counted where dispatch dies before the answer."""
    seen = []

    async def answers(request):
        seen.extend(rows(conn, "SELECT requests, input > 0, output FROM usage"))
        return await reply(200, (EVENTS / "messages.json").read_text())(request)

    async def use(program, host):
        async with program.post("/v1/messages", json={**ASKED, "stream": False, "max_tokens": 30}) as answer:
            return await answer.read()

    through(db, sockets, answers, use)
    assert seen == [(1, 1, 30)]
    assert rows(conn, "SELECT requests, output FROM usage") == [(1, 57)]


def test_a_request_that_is_cut_off_before_its_answer_keeps_its_estimate(db, conn, sockets):
    asked = asyncio.Event()

    async def never(_):
        asked.set()
        await asyncio.Event().wait()

    async def use(program, host):
        asking = asyncio.ensure_future(program.post("/v1/messages", json=ASKED)._coro)
        await asked.wait()
        program.gateway.end(program.token)
        await asyncio.gather(asking, return_exceptions=True)

    through(db, sockets, never, use)
    assert rows(conn, "SELECT requests, output > 0 FROM usage") == [(1, 1)]


def test_counting_tokens_costs_nothing(db, conn, sockets):
    async def use(program, host):
        async with program.post("/v1/messages/count_tokens", json=ASKED) as answer:
            return answer.status, await answer.text()

    assert through(db, sockets, reply(200, '{"input_tokens":5}'), use) == (200, '{"input_tokens":5}')
    assert column(conn, "SELECT count(*) FROM usage") == [0]


def test_fifty_streams_at_once_come_whole(db, conn, sockets):
    async def one(program):
        async with program.post("/v1/messages", json=ASKED) as answer:
            return await answer.read()

    async def use(program, host):
        return await asyncio.gather(*(one(program) for _ in range(50)))

    assert len(set(through(db, sockets, stream_of("messages"), use))) == 1
    assert column(conn, "SELECT requests FROM usage") == [50]
    assert column(conn, "SELECT output FROM usage") == [50 * 57]


def test_a_request_that_cannot_be_noted_is_not_sent_and_says_why(db, conn, sockets):
    """Else no budget would hold; and a connection that closes would look like a fault of the model's host."""
    rows(conn, "CREATE TRIGGER full BEFORE INSERT ON usage BEGIN SELECT RAISE(ABORT, 'no room'); END")

    async def use(program, host):
        async with program.post("/v1/messages", json=ASKED) as answer:
            return answer.status, await answer.json(), host.requests, program.refusals

    status, body, sent, refusals = through(db, sockets, reply(200), use)
    assert (status, sent, [each.reason for each in refusals]) == (503, [], ["unwritten"])
    assert "no room" in body["error"]["message"]
    assert "database" in refusals[0].sentence
