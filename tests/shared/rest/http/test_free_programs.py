"""Where an agent's program runs without a leash, nobody calls the API without a token."""

import pytest

from shared.agents.programs import containment
from tests.api_client import ask
from tests.support import make_agent

TOKEN = {"authorization": "Bearer s3cret-token"}


@pytest.fixture
def without_leash(monkeypatch):
    monkeypatch.setenv("POSTROOM_LEASH", "off")


def program(conn):
    make_agent(conn, "coder", provider="command", config={"command": ["true"]})


def test_a_program_without_a_leash_closes_the_api_to_everybody_without_the_token(serving, conn, without_leash):
    program(conn)
    for method, path in (("GET", "/api/users"), ("PUT", "/api/users/telegram:42/roles/owner")):
        reply = ask(serving, method, path)
        assert reply.status_code == 401
        assert "the agent coder runs a program" in reply.json()["error"]
        assert "set POSTROOM_API_TOKEN" in reply.json()["error"]


def test_the_token_opens_it(serving, conn, without_leash, monkeypatch):
    monkeypatch.setenv("POSTROOM_API_TOKEN", "s3cret-token")
    program(conn)
    assert ask(serving, "GET", "/api/users").status_code == 401
    assert ask(serving, "GET", "/api/users", headers=TOKEN).status_code == 200


def test_without_programs_this_machine_needs_no_token(serving, conn, without_leash):
    make_agent(conn, "parrot")
    assert ask(serving, "GET", "/api/users").status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/agents/coder", {"provider": "command", "config": {"command": ["true"]}}),
        ("/api/roster", {"agents": {"coder": {"provider": "command", "config": {"command": ["true"]}}}}),
    ],
)
def test_an_agent_that_would_close_the_api_is_refused_without_a_token(serving, without_leash, path, body):
    reply = ask(serving, "PUT", path, json=body)
    assert reply.status_code == 409
    assert "set POSTROOM_API_TOKEN" in reply.json()["error"]
    assert ask(serving, "GET", "/api/agents").json().keys() == {"assistant"}


def test_on_a_leash_a_program_closes_nothing(serving, conn):
    """On a host without bubblewrap the API is closed all the same."""
    program(conn)
    expected = 200 if containment.available().is_leash else 401
    assert ask(serving, "GET", "/api/users").status_code == expected
