"""TinyAGI's web office on our API."""

import asyncio

import pytest

from shared.db.engine.connection import rows
from tests.api_client import ask, call, get, post
from tests.support import column, make_agent, put, take


@pytest.fixture
def office(monkeypatch):
    """The operator names the address of the office."""
    monkeypatch.setenv("POSTROOM_ORIGINS", "http://localhost:3000")


ORIGIN = {"origin": "http://localhost:3000", "content-type": "application/json"}


def test_the_office_connects(serving, conn, office):
    """It sends a content type with every call, so its browser sends a preflight request."""
    paths = ["/api/settings", "/api/agents", "/api/teams", "/api/queue/status", "/api/queue/processing"]
    paths += ["/api/responses?limit=20", "/api/logs?limit=100", "/api/status", "/api/tasks", "/api/projects"]
    paths += ["/api/pairing", "/api/custom-providers", "/api/agent-messages?limit=100&since_id=0"]
    paths += ["/api/agents/assistant/messages?limit=200&since_id=0", "/api/agents/assistant/skills"]
    paths += [f"/api/agents/assistant/{name}" for name in ("system-prompt", "memory", "heartbeat")]
    asking = {**ORIGIN, "access-control-request-method": "GET", "access-control-request-headers": "content-type"}
    asked = call(serving, *(("OPTIONS", path, {"headers": asking}) for path in paths), host="localhost:3777")
    replies = call(serving, *(("GET", path, {"headers": ORIGIN}) for path in paths), host="localhost:3777")
    assert {reply.status_code for reply in asked} == {204}
    assert {reply.status_code for reply in replies} == {200}
    assert {reply.headers["access-control-allow-origin"] for reply in asked + replies} == {ORIGIN["origin"]}


def test_the_office_shows_agents_by_these_names(serving, conn):
    agent = get(serving, "/api/agents").json()["assistant"]
    names = ("name", "provider", "model", "working_directory", "system_prompt")
    assert {type(agent[name]) for name in names} == {str}


def test_the_office_can_save_an_agent_as_it_was_shown(serving, conn):
    """It sends the whole agent back, but only TinyAGI's fields."""
    make_agent(conn, "coder", instructions="be kind", concurrency=4)
    shown = get(serving, "/api/agents").json()["coder"]
    kept = {name: shown[name] for name in ("name", "provider", "model", "working_directory", "system_prompt")}
    reply = ask(serving, "PUT", "/api/agents/coder", {**kept, "name": "The Coder", "prompt_file": ""})
    assert reply.json() == {"ok": True, "agent": {**shown, "name": "The Coder"}, "provisioned": False}
    assert column(conn, "SELECT concurrency FROM agents WHERE id = 'coder'") == [4]


REFUSED_AGENTS = {
    "a folder elsewhere": ({"working_directory": "/etc"}, "working_directory must be a folder below"),
    "a folder above": ({"working_directory": "../x"}, "working_directory must be a folder below"),
    "the folder of all": ({"working_directory": "."}, "working_directory must be a folder below"),
    "a file to read": ({"prompt_file": "/etc/passwd"}, "prompt_file: "),
    "a heartbeat": ({"heartbeat": {"enabled": True, "interval": 60}}, "heartbeat.enabled: "),
    "two prompts": ({"system_prompt": "a", "instructions": "b"}, "system_prompt and instructions are the same"),
    "an unknown provider": ({"provider": "claudius"}, "unknown provider 'claudius'; known: "),
}


@pytest.mark.parametrize(("body", "sentence"), REFUSED_AGENTS.values(), ids=REFUSED_AGENTS)
def test_unsupported_agent_fields_are_refused(serving, conn, body, sentence):
    reply = ask(serving, "PUT", "/api/agents/a", body)
    assert (reply.status_code, sentence in reply.json()["error"]) == (400, True)
    assert column(conn, "SELECT id FROM agents") == ["assistant"]


def test_an_agents_own_folder_is_kept(serving, conn, tmp_path):
    for given in ("teams/coder", f"{tmp_path}/agents/teams/coder"):
        reply = ask(serving, "PUT", "/api/agents/coder", {"working_directory": given})
        assert reply.json()["agent"]["working_directory"] == f"{tmp_path}/agents/teams/coder"
    assert column(conn, "SELECT folder FROM agents WHERE id = 'coder'") == ["teams/coder"]


def test_the_offices_chat_writes_to_an_agent_and_reads_its_history(running, conn):
    make_agent(conn, "coder")

    async def go():
        async with running() as http:
            body = {"message": "@coder hello", "sender": "Web", "channel": "web"}
            message_id = (await http.post("/api/message", json=body)).json()["messageId"]
            await http.get(f"/api/messages/{message_id}?wait=60")
            newest = (await http.get("/api/agents/coder/messages?limit=200&since_id=0")).json()
            later = (await http.get(f"/api/agents/coder/messages?limit=200&since_id={newest[1]['id']}")).json()
            of = {
                channel: (await http.get(f"/api/agents/coder/messages?channel={channel}")).json()
                for channel in ("web", "telegram", "")
            }
            return message_id, newest, later, of

    message_id, newest, later, of = asyncio.run(go())
    assert of == {"web": newest, "telegram": [], "": newest}
    assert [(each["role"], each["content"]) for each in newest] == [
        *(("assistant", "You said: @coder hello"), ("user", "@coder hello"))
    ]
    assert later == newest[:1]
    assert newest[1] | {"id": 0, "created_at": 0} == {
        **{"id": 0, "agent_id": "coder", "role": "user", "channel": "web", "sender": "Web"},
        **{"message_id": message_id, "content": "@coder hello", "created_at": 0},
    }


def test_a_running_message_is_shown_and_can_be_killed(serving, conn):
    row_id = put(conn, given_id="m_1")
    take(conn)
    (shown,) = get(serving, "/api/queue/processing").json()
    assert {name: type(value).__name__ for name, value in shown.items()} == {
        **{"id": "int", "messageId": "str", "channel": "str", "sender": "str", "message": "str", "agent": "str"},
        **{"status": "str", "processAlive": "bool", "startedAt": "int", "duration": "int"},
    }
    assert (shown["id"], shown["messageId"], shown["status"]) == (row_id, "m_1", "processing")
    assert get(serving, "/api/queue/agents").json() == [
        {"agent": "assistant", "pending": 0, "queued": 0, "processing": 1}
    ]
    killed = post(serving, {}, f"/api/queue/processing/{row_id}/kill").json()
    assert killed == {"ok": True, "agent": "assistant", "processKilled": True}


def test_the_office_gets_a_reason_for_every_refusal(serving, conn, office):
    """It shows the sentence in ``error``."""
    for method, path, body in [
        *(("PUT", "/api/settings", {"models": {}}), ("POST", "/api/setup", {}), ("POST", "/api/services/restart", {})),
        *(("POST", "/api/tasks", {"title": "x"}), ("POST", "/api/pairing/approve", {"code": "A"})),
    ]:
        reply = ask(serving, method, path, body, headers=ORIGIN, host="localhost")
        assert reply.status_code in (404, 501)
        assert reply.json()["error"]


def test_what_is_planned_for_tomorrow_is_not_incoming(serving, conn):
    make_agent(conn, "coder")
    tomorrow = {"agentId": "coder", "message": "tidy up", "cron": "0 9 1 1 *"}
    assert post(serving, tomorrow, "/api/schedules").status_code == 200
    assert post(serving, {"message": "later", "processAfter": 4_000_000_000_000}).status_code == 200
    status = get(serving, "/api/queue/status").json()
    assert (status["incoming"], get(serving, "/api/queue/agents").json()) == (0, [])
    put(conn)
    rows(conn, "UPDATE messages SET process_after = 4000000000000, failure = 'error' WHERE id = 3")
    assert get(serving, "/api/queue/status").json()["incoming"] == 1, "a message that waits for a retry has come in"
    assert get(serving, "/api/queue/agents").json() == [
        {"agent": "assistant", "pending": 1, "queued": 0, "processing": 0}
    ]


@pytest.mark.parametrize("provider", ["openai", "opencode"])
def test_the_office_can_make_an_agent_of_a_real_program(serving, conn, provider):
    body = {"name": "Coder", "provider": provider, "model": "m", "working_directory": "coder", "system_prompt": ""}
    reply = ask(serving, "PUT", "/api/agents/coder", body).json()
    assert (reply["ok"], reply["agent"]["provider"], "note" in reply) == (True, provider, False)
    assert column(conn, "SELECT provider FROM agents WHERE id = 'coder'") == [provider]


@pytest.mark.parametrize("provider", ["anthropic"])
def test_the_office_can_make_an_agent_with_each_provider_that_it_offers(serving, conn, provider):
    body = {"name": "Coder", "provider": provider, "model": "sonnet", "working_directory": "coder", "system_prompt": ""}
    reply = ask(serving, "PUT", "/api/agents/coder", body).json()
    assert (reply["ok"], reply["provisioned"], reply["agent"]["provider"]) == (True, True, provider)
    assert column(conn, "SELECT provider FROM agents WHERE id = 'coder'") == [provider]
