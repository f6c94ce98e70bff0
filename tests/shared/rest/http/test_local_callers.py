"""Without a token only this machine may call, by its address; with a token, the token alone decides."""

import asyncio

import httpx
import pytest

from functions import api
from tests.serving import app_of


def status(peer, **headers):
    """The status of a POST from the address *peer*; 400 if it is authorized, because it has no text."""

    async def go():
        app = app_of(api)
        transport = httpx.ASGITransport(app=app, client=(peer, 50_000))
        async with api.lifespan(app), httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return (await client.post("/api/message", json={}, headers=headers)).status_code

    return asyncio.run(go())


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_without_a_token_this_machine_may_call(peer):
    assert status(peer) == 400


@pytest.mark.parametrize("peer", ["10.0.3.7", "192.168.1.5", "2001:db8::1", "somewhere"])
def test_without_a_token_another_machine_is_refused_in_spite_of_a_loopback_host_header(peer):
    assert status(peer) == 403


def test_with_the_token_a_page_of_the_deployed_host_may_write(monkeypatch):
    monkeypatch.setenv("POSTROOM_API_TOKEN", "s3cret")
    headers = {"authorization": "Bearer s3cret", "origin": "https://postroom.example"}
    assert status("10.0.3.7", **headers) == 400
    assert status("10.0.3.7", origin="https://postroom.example") == 401
