"""Requests that no browser sends."""

import asyncio

import pytest
from aiohttp import web

from tests.emulator.system.test_gateway import behind_gateway


def exchange(text: str) -> tuple[str, list[web.Request]]:
    """The status line of the gateway's answer to *text*, and what reached the function."""
    reached: list[web.Request] = []

    async def handler(request: web.Request) -> web.Response:
        reached.append(request)
        return web.Response()

    async def go() -> str:
        async with behind_gateway(handler) as (url, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            writer.write(text.replace("\n", "\r\n").encode())
            line = (await asyncio.wait_for(reader.readline(), 60)).decode()
            writer.close()
            return line.strip()

    return asyncio.run(go()), reached


def test_a_request_line_with_a_whole_url_goes_to_the_function_only() -> None:
    status, reached = exchange("GET http://evil.example/a%2Fb?q=1 HTTP/1.1\nHost: 127.0.0.1\n\n")
    assert status == "HTTP/1.1 200 OK"
    assert [request.raw_path for request in reached] == ["/a%2Fb?q=1"]


def test_headers_named_by_connection_end_at_the_gateway() -> None:
    """RFC 9110, 7.6.1."""
    _, reached = exchange("GET / HTTP/1.1\nHost: 127.0.0.1\nConnection: close, X-Mine\nX-Mine: 1\nX-Yours: 2\n\n")
    (request,) = reached
    assert "X-Mine" not in request.headers
    assert request.headers["X-Yours"] == "2"


def test_a_function_sees_that_a_proxy_passed_a_request_on() -> None:
    """``api`` refuses such a request without a token. A client must not hide the proxy by naming its header."""
    _, reached = exchange(
        "GET / HTTP/1.1\nHost: 127.0.0.1\nConnection: close, X-Forwarded-For\nX-Forwarded-For: 203.0.113.7\n\n"
    )
    assert [request.headers["X-Forwarded-For"] for request in reached] == ["203.0.113.7"]


def test_a_request_of_this_machine_reaches_the_function_as_it_came() -> None:
    _, reached = exchange("GET / HTTP/1.1\nHost: 127.0.0.1\n\n")
    assert [name for name in reached[0].headers if name.lower().startswith(("x-", "forwarded", "via"))] == []


@pytest.mark.parametrize("path", ["/_emulator/status", "/_emulator/chat"])
@pytest.mark.parametrize("header", ["Host: example.org", "Host: 127.0.0.1\nCF-Connecting-IP: 203.0.113.7"])
def test_strangers_get_neither_the_status_nor_the_chat(path: str, header: str) -> None:
    status, reached = exchange(f"GET {path} HTTP/1.1\n{header}\n\n")
    assert status == "HTTP/1.1 403 Forbidden"
    assert reached == []
