"""What a paused agent's program and models say, and what follows: a trial, or another question, ever later."""

import asyncio

import pytest
from aiohttp import web

from functions.dispatch import Dispatch
from shared.core.settings import Settings
from shared.core.time import clock
from shared.db.engine.connection import transaction
from shared.db.roster import agent_pauses, agents
from shared.turns.gateway.upstreams import GatewaySettings
from shared.turns.run import agent_check
from tests.shared.turns.gateway.model_host import KEY, hosting
from tests.support import NOW, column, make_agent

MINUTE = 60_000


@pytest.fixture
def host(monkeypatch):
    """Runs a question of *ask* against a host of models that answers with a status."""

    def run(status, ask):
        async def serve(_):
            return web.json_response({}, status=status)

        async def go():
            async with hosting(serve) as found:
                monkeypatch.setenv("POSTROOM_LOCAL_MODELS_URL", found.url)
                monkeypatch.setenv("POSTROOM_LOCAL_MODELS_API_KEY", KEY)
                return await ask(), found.requests

        return asyncio.run(go())

    return run


def paused(conn, code="auth", ago=MINUTE, **config):
    """An agent of the provider ``api``, paused since *ago*, whose check is due."""
    make_agent(conn, "coder", provider="api", model="m", config={"models": "local", **config})
    with transaction(conn):
        agent_pauses.pause(conn, "coder", code, "401", now_ms=clock.now_ms() - ago)
        conn.execute("UPDATE agent_pauses SET check_at = 1")


async def checked(until, conn):
    """One look of a dispatch, to the end of its question; what the row says then."""
    service = Dispatch(Settings.load())
    try:
        await service.paused_agents.look(now_ms=clock.now_ms())
        await until(lambda: column(conn, "SELECT check_at FROM agent_pauses") != [1])
    finally:
        await service.close()
    return agent_pauses.every(conn)["coder"]


def test_a_login_that_is_still_refused_gets_no_trial(conn, until, host):
    paused(conn)
    pause, requests = host(401, lambda: checked(until, conn))
    assert (pause.state, pause.reason) == ("paused", "the host of its models still refuses our key or login")
    assert len(requests) == 1
    assert column(conn, "SELECT type FROM events WHERE type = 'agent_resumed'") == []


@pytest.mark.parametrize(("ago", "wait"), [(0, 1), (30, 30), (600, 60)])
def test_it_is_asked_ever_later_and_at_least_every_hour(conn, until, host, ago, wait):
    paused(conn, ago=ago * MINUTE)
    before = clock.now_ms()
    pause, _ = host(401, lambda: checked(until, conn))
    assert wait * MINUTE <= pause.check_at - before < (wait + 1) * MINUTE


@pytest.mark.parametrize("status", [200, 404, 500])
def test_a_login_that_is_taken_or_not_judged_gets_a_trial(conn, until, host, status):
    paused(conn)
    assert host(status, lambda: checked(until, conn))[0].state == "trying"


def test_a_provider_without_a_program_and_models_is_never_asked(conn, until):
    make_agent(conn, "coder", provider="echo")
    with transaction(conn):
        agent_pauses.pause(conn, "coder", "auth", "401", now_ms=NOW)
        conn.execute("UPDATE agent_pauses SET check_at = 1")
    assert asyncio.run(checked(until, conn)).check_at is None


def why(conn, code, **settings):
    agent = agents.get(conn, "coder")
    return asyncio.run(agent_check.why_not(agent, code, GatewaySettings(**settings), now_ms=NOW))


def test_a_key_that_is_gone_is_named_without_a_request(conn):
    paused(conn)
    assert "no key for 'local'" in why(conn, "auth")


def test_a_host_that_is_down_gets_no_trial_which_would_cost_attempts(conn):
    paused(conn, code="quota")
    assert why(conn, "quota", local_models_url="http://127.0.0.1:1") == "the host of its models can't be reached"


def test_another_reason_asks_no_host(conn):
    paused(conn, code="model_not_found")
    assert why(conn, "model_not_found", local_models_url="http://127.0.0.1:1") is None


def test_a_program_that_is_missing_is_named(conn):
    make_agent(conn, "coder", provider="claude", config={"program": "/nowhere/claude"})
    assert "'/nowhere/claude' is no program" in why(conn, "not_installed")


def test_a_config_that_can_not_be_read_is_named(conn):
    make_agent(conn, "coder", provider="claude", config={"colour": "blue"})
    assert "colour" in why(conn, "bad_config")
