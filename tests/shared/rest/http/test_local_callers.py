"""Without a token only this machine may call, by its address; with a token, the token alone decides."""

import asyncio

import httpx
import pytest

from functions import api
from shared.runtime import operator_token
from tests.serving import app_of


def status(peer, is_own_user=True, **headers):
    """The status of a POST from the address *peer*; 400 if it is authorized, because it has no text."""
    return answered(peer, is_own_user, **headers).status_code


def answered(peer, is_own_user=True, **headers):
    """The answer to a POST without a text from the address *peer*."""

    async def go():
        app = app_of(api, is_own_user=is_own_user)
        transport = httpx.ASGITransport(app=app, client=(peer, 50_000))
        async with api.lifespan(app), httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.post("/api/message", json={}, headers=headers)

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


PROXIES = {
    "nginx": {"x-real-ip": "203.0.113.7", "x-forwarded-proto": "https"},
    "a proxy that follows the standard": {"forwarded": "for=203.0.113.7;proto=https"},
    "a proxy that says that its client is local": {"x-forwarded-for": "127.0.0.1"},
    "a tunnel": {"cf-connecting-ip": "203.0.113.7", "cf-ray": "8a1b2c3d4e5f6a7b-ZRH"},
    "a proxy that names itself only": {"via": "1.1 caddy"},
    "a proxy that passes on the name": {"x-forwarded-host": "postroom.example"},
}


@pytest.mark.parametrize("headers", PROXIES.values(), ids=PROXIES)
def test_without_a_token_a_request_that_a_proxy_passed_on_is_refused(headers):
    """The connection comes from this machine, but whoever sent the request may be anywhere."""
    reply = answered("127.0.0.1", **headers)
    assert reply.status_code == 403
    assert "set POSTROOM_API_TOKEN" in reply.json()["error"]
    assert next(iter(headers)) in reply.json()["error"]


def test_another_user_of_this_machine_is_told_where_the_token_is(db):
    reply = answered("127.0.0.1", is_own_user=False)
    assert reply.status_code == 401
    assert f"the file {operator_token.path_of(db).name}, which lies" in reply.json()["error"]


def test_a_request_that_the_gateway_took_from_another_user_is_that_users():
    assert status("127.0.0.1", **{"x-forwarded-other-user": "1"}) == 401


@pytest.mark.parametrize("peer", ["127.0.0.1", "10.0.3.7"])
def test_a_stranger_with_the_token_of_the_file_is_answered(peer, db):
    token = operator_token.read_or_make(db)
    headers = {"authorization": f"Bearer {token}", "host": "postroom.example", "x-forwarded-for": "203.0.113.7"}
    assert status(peer, is_own_user=False, **headers) == 400
    assert status(peer, is_own_user=False, authorization=f"Bearer {token}x") in (401, 403)


def test_the_token_of_the_file_opens_nothing_where_another_is_set(monkeypatch, db):
    monkeypatch.setenv("POSTROOM_API_TOKEN", "s3cret")
    assert status("127.0.0.1", authorization=f"Bearer {operator_token.read_or_make(db)}") == 401


def test_without_a_safe_file_no_token_opens(db):
    operator_token.path_of(db).touch(0o600)
    for given in ("Bearer ", "Bearer None"):
        assert status("127.0.0.1", is_own_user=False, authorization=given) == 401
    assert status("127.0.0.1") == 400


def test_with_the_token_a_request_that_a_proxy_passed_on_is_answered(monkeypatch):
    monkeypatch.setenv("POSTROOM_API_TOKEN", "s3cret")
    assert status("127.0.0.1", **{"authorization": "Bearer s3cret", "x-forwarded-for": "203.0.113.7"}) == 400
    assert status("127.0.0.1", **{"x-forwarded-for": "203.0.113.7"}) == 401
