"""Whether a host of models takes our key or login, asked of a real HTTP host on loopback."""

import asyncio

import pytest
from aiohttp import web

from shared.turns.gateway import login_check
from shared.turns.gateway.upstreams import GatewaySettings, upstreams
from tests.shared.turns.gateway.model_host import KEY, hosting


def settings_of(name, url):
    if name == "plan":
        return GatewaySettings(claude_code_oauth_token=KEY, anthropic_base_url=url)
    key, address = {
        "anthropic": ("anthropic_api_key", "anthropic_base_url"),
        "openai": ("openai_api_key", "openai_base_url"),
        "local": ("local_models_api_key", "local_models_url"),
    }[name]
    return GatewaySettings(**{key: KEY, address: url})


def ask(name, status, body="{}", **headers):
    """The state, and the requests that the host got."""

    async def serve(_):
        return web.Response(status=status, text=body, headers=headers)

    async def go():
        async with hosting(serve) as host:
            known = upstreams(settings_of(name, host.url))
            return await login_check.ask(next(iter(known.values()))), host.requests

    return asyncio.run(go())


@pytest.mark.parametrize(
    ("name", "path", "header", "value"),
    [
        ("anthropic", "/v1/models", "x-api-key", KEY),
        ("plan", "/v1/models", "authorization", f"Bearer {KEY}"),
        ("openai", "/models", "authorization", f"Bearer {KEY}"),
        ("local", "/models", "authorization", f"Bearer {KEY}"),
    ],
)
def test_it_asks_once_for_the_list_of_models_with_our_key(name, path, header, value):
    state, (request,) = ask(name, 200)
    assert state == "accepted"
    assert (request.method, request.path, request.headers[header]) == ("GET", path, value)
    assert "anthropic-version" in request.headers


def test_the_login_of_a_plan_is_named_as_the_host_wants_it():
    _, (request,) = ask("plan", 200)
    assert request.headers["anthropic-beta"] == "oauth-2025-04-20"


@pytest.mark.parametrize(
    ("name", "status", "body", "state"),
    [
        ("anthropic", 401, '{"error": {"type": "authentication_error", "message": "invalid x-api-key"}}', "refused"),
        ("openai", 401, '{"error": {"code": "invalid_api_key"}}', "refused"),
        ("openai", 403, '{"error": {"message": "Country not allowed"}}', "refused"),
        ("plan", 401, '{"error": {"message": "OAuth token has expired"}}', "refused"),
        ("plan", 401, '{"error": {"message": "OAuth authentication is currently not supported."}}', "unknown"),
        ("plan", 403, '{"error": {"type": "permission_error"}}', "unknown"),
        ("openai", 403, '{"error": {"message": "Missing scopes: api.model.read"}}', "unknown"),
        ("local", 404, "no such page", "unknown"),
        ("openai", 429, "{}", "unknown"),
        ("anthropic", 529, "{}", "unknown"),
    ],
)
def test_only_a_refused_login_counts_as_refused(name, status, body, state):
    assert ask(name, status, body)[0] == state


def test_the_key_is_not_carried_to_another_address():
    state, requests = ask("openai", 302, Location="/elsewhere")
    assert state == "unknown"
    assert len(requests) == 1


def test_a_host_that_is_not_there_is_unreachable():
    known = upstreams(settings_of("openai", "http://127.0.0.1:1"))
    assert asyncio.run(login_check.ask(known["openai"])) == "unreachable"


@pytest.mark.parametrize("status", [200, 401])
def test_the_log_has_the_state_and_no_key(status, capfd):
    ask("openai", status, f'{{"error": "Incorrect API key provided: {KEY}"}}')
    written = "".join(capfd.readouterr())
    assert "models.login_asked" in written
    assert KEY not in written
