"""Who may use the emulator's own paths."""

import asyncio
import base64
import socket
from collections.abc import Callable

import pytest
from aiohttp import web

from emulator.base.door import Door
from emulator.base.limited_site import LimitedSite
from tests.other_user import Reply, ask, ask_as_nobody, needs_root

TOKEN = "the-token-of-the-file"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
BASIC = {"Authorization": "Basic " + base64.b64encode(f"me:{TOKEN}".encode()).decode()}


def reply_to(asking: Callable[..., Reply], headers: dict[str, str], token: str | None = TOKEN) -> Reply:
    """The answer of a site with a door; ``OWN`` in a header stands for the address of the site."""

    async def go() -> Reply:
        door = Door(token, "postroom.db-api-token")

        async def serve(request: web.Request) -> web.Response:
            return door.refuse(request) or web.Response(text="in")

        app = web.Application()
        app.router.add_get("/", serve)
        site, sock = LimitedSite("the test", app, shutdown_timeout=0.1), socket.create_server(("127.0.0.1", 0))
        own = f"127.0.0.1:{sock.getsockname()[1]}"
        named = {name: value.replace("OWN", own) for name, value in headers.items()}
        await site.start(sock)
        try:
            return await asyncio.to_thread(asking, f"http://{own}/", headers=named)
        finally:
            await site.stop()

    return asyncio.run(go())


CALLS: dict[str, tuple[dict[str, str], int]] = {
    "a program": ({}, 200),
    "our page": ({"Origin": "http://OWN"}, 200),
    "our page through the gateway": ({"Host": "localhost:8080", "Origin": "http://localhost:8080"}, 200),
    "a page of another port": ({"Origin": "http://127.0.0.1:1"}, 403),
    "a page of another port, whose browser knows the token": ({"Origin": "http://127.0.0.1:1", **BASIC}, 403),
    "a page elsewhere": ({"Origin": "https://evil.example"}, 403),
    "a page without an origin": ({"Origin": "null"}, 403),
    "a name made to point here": ({"Host": "evil.example:8081", "Origin": "http://evil.example:8081"}, 403),
    "the same, reading": ({"Host": "evil.example:8081"}, 403),
    "somebody behind a proxy": ({"X-Forwarded-For": "127.0.0.1"}, 403),
    "another user, through the gateway": ({"X-Forwarded-Other-User": "1"}, 401),
    "the same with the token": ({"X-Forwarded-Other-User": "1", **BEARER}, 200),
}


@pytest.mark.parametrize(("headers", "status"), CALLS.values(), ids=CALLS)
def test_this_user_may_and_no_page_of_another_address(headers: dict[str, str], status: int) -> None:
    assert reply_to(ask, headers)[0] == status


STRANGERS: dict[str, tuple[dict[str, str], int]] = {
    "nothing": ({}, 401),
    "the token": (BEARER, 200),
    "the token as a password": (BASIC, 200),
    "another token": ({"Authorization": "Bearer guess"}, 401),
    "the token as a name": ({"Authorization": "Basic " + base64.b64encode(TOKEN.encode()).decode()}, 401),
    "no base64": ({"Authorization": "Basic é"}, 401),
    "another way": ({"Authorization": f"Digest {TOKEN}"}, 401),
    "an empty token": ({"Authorization": "Bearer "}, 401),
}


@needs_root
@pytest.mark.parametrize(("headers", "status"), STRANGERS.values(), ids=STRANGERS)
def test_another_user_needs_the_token(headers: dict[str, str], status: int) -> None:
    found = reply_to(ask_as_nobody, headers)
    assert found[0] == status
    if status == 401:
        assert "postroom.db-api-token" in found[1]
        assert found[2]["www-authenticate"] == 'Basic realm="Postroom"'


@needs_root
@pytest.mark.parametrize("given", ["Bearer None", "Bearer ", "Basic Og=="])
def test_without_a_token_nothing_opens_to_another_user(given: str) -> None:
    assert reply_to(ask_as_nobody, {"Authorization": given}, token=None)[0] == 401
