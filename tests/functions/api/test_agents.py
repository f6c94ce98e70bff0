"""Agents over REST."""

import pytest

from shared.db.engine.connection import rows
from tests.api_client import ask, call, get, post
from tests.support import column, dump, make_agent


def test_an_agent_is_created_and_changed_under_its_id(serving, conn, tmp_path):
    replies = call(
        serving,
        (
            "PUT",
            "/api/agents/coder",
            {"json": {"provider": "command", "config": {"command": ["true"]}, "concurrency": 3}},
        ),
        ("PUT", "/api/agents/coder", {"json": {"name": "The Coder"}}),
        ("GET", "/api/agents", {}),
    )
    assert [reply.status_code for reply in replies] == [200] * 3
    expected = {
        "name": "The Coder",
        "provider": "command",
        "model": "",
        "working_directory": f"{tmp_path}/agents/coder",
        "system_prompt": "",
        "instructions": "",
        "config": {"command": ["true"]},
        "concurrency": 3,
        "timezone": "UTC",
        "folder": None,
        "turn_timeout_ms": None,
        "idle_timeout_ms": None,
        "tool_timeout_ms": None,
        "output_limit_bytes": None,
        "memory_limit_mb": None,
        "batch_size": None,
        "resume_spoken": False,
        "drafts": False,
        "models": [],
        "chosen_provider": None,
        "default": False,
    }
    found = replies[2].json()["coder"]
    assert found | expected == found
    assert replies[2].json()["assistant"]["default"]


AGENTS = {
    "an unknown provider": ("a", {"provider": "claudius"}, "unknown provider 'claudius'; known: "),
    "an unknown zone": ("a", {"timezone": "Mars"}, "time zone 'Mars'"),
    "an unknown setting": ("a", {"colour": "red"}, "colour: there is no such field; known: "),
    "no name": ("a", {"name": ""}, "name: "),
    "null for what is required": ("a", {"config": None}, "config: "),
    "a concurrency of nothing": ("a", {"concurrency": 0}, "concurrency: "),
    "a program that is not named": ("a", {"provider": "command"}, "command: is missing"),
    "a program that is no list": ("a", {"provider": "command", "config": {"command": "python3 x"}}, "valid list"),
    "the config of another provider": (
        "a",
        {"provider": "auto", "config": {"command": ["python3", "x.py"]}},
        "provider 'auto' may choose 'claude', and the config for provider 'claude' is wrong: command: ",
    ),
    "a folder elsewhere": ("a", {"folder": "/etc"}, "is not below the agents' folder"),
    "somebody's folder": ("a", {"folder": "assistant"}, "of agent 'assistant' overlap"),
    "two folders": ("a", {"folder": "a", "working_directory": "b"}, "working_directory and folder are the same field"),
    "an id in capitals": ("A", {}, "an agent's id is"),
    "an id with a dot": ("a.b", {}, "an agent's id is"),
}


@pytest.mark.parametrize(("name", "body", "sentence"), AGENTS.values(), ids=AGENTS)
def test_an_invalid_agent_is_refused(serving, conn, name, body, sentence):
    before = dump(conn)
    (reply,) = call(serving, ("PUT", f"/api/agents/{name}", {"json": body}))
    assert (reply.status_code, sentence in reply.json()["error"]) == (400, True)
    assert dump(conn) == before


@pytest.mark.parametrize("number", [b"1e400", b"NaN"])
def test_a_number_that_json_does_not_have_is_refused(serving, conn, number):
    (reply,) = call(serving, ("PUT", "/api/agents/a", {"content": b'{"config": {"a": [%s]}}' % number}))
    assert reply.status_code == 400
    assert column(conn, "SELECT id FROM agents") == ["assistant"]


def test_a_change_leaves_the_other_fields(serving, conn):
    make_agent(conn, "a", instructions="be kind", concurrency=4, timezone="Europe/Zurich")
    call(serving, ("PUT", "/api/agents/a", {"json": {"model": "m"}}))
    found = rows(conn, "SELECT model, instructions, concurrency, timezone FROM agents WHERE id = 'a'")
    assert found == [("m", "be kind", 4, "Europe/Zurich")]


def test_an_agents_own_limits_are_set_and_removed(serving, conn):
    set_, back = call(
        serving,
        ("PUT", "/api/agents/a", {"json": {"turn_timeout_ms": 5000, "batch_size": 2, "folder": "x/y"}}),
        ("PUT", "/api/agents/a", {"json": {"turn_timeout_ms": None, "batch_size": None, "folder": None}}),
    )
    names = ("turn_timeout_ms", "batch_size", "folder")
    assert [set_.json()["agent"][name] for name in names] == [5000, 2, "x/y"]
    assert [back.json()["agent"][name] for name in names] == [None] * 3


def test_another_agent_becomes_the_default(serving, conn):
    call(serving, ("PUT", "/api/agents/a", {"json": {"default": True}}))
    post(serving, {"message": "hi"})
    assert column(conn, "SELECT agent FROM messages") == ["a"]
    reply = ask(serving, "PUT", "/api/agents/a", {"default": False})
    assert (reply.status_code, "make another agent the default" in reply.json()["error"]) == (409, True)


def test_an_agent_with_history_is_retired_and_can_come_back(serving, conn):
    make_agent(conn, "a", instructions="be kind")
    waiting = post(serving, {"message": "hi", "agent": "a"}).json()["messageId"]
    refused = ask(serving, "DELETE", "/api/agents/a")
    assert (refused.status_code, "1 message waits for agent 'a'" in refused.json()["error"]) == (409, True)
    replies = call(
        serving,
        ("POST", f"/api/messages/{waiting}/cancel", {}),
        ("DELETE", "/api/agents/a", {}),
        ("GET", "/api/agents/a", {}),
        ("POST", "/api/message", {"json": {"message": "hi", "agent": "a"}}),
        ("POST", "/api/message", {"json": {"message": "@a hi"}}),
        ("PUT", "/api/agents/a", {"json": {}}),
        ("POST", "/api/message", {"json": {"message": "hi", "agent": "a"}}),
    )
    assert [reply.status_code for reply in replies] == [200, 200, 404, 404, 200, 200, 200]
    assert replies[1].json() == {"ok": True, "retired": True}
    assert replies[2].json() == {"error": "agent 'a' not found; known: assistant"}
    back = replies[5].json()
    assert (back["provisioned"], back["agent"]["instructions"]) == (False, "be kind")
    assert column(conn, "SELECT agent FROM messages ORDER BY id") == ["a", "assistant", "a"]


def test_the_root_lists_the_endpoints(serving):
    assert "POST /api/message" in get(serving, "/").json()["postroom"]
