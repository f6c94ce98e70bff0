"""The OpenAPI document is true: it names every route, and every answer has the documented shape."""

import re

import jsonschema
import openapi_spec_validator
import pytest

from functions import api
from shared.db.access import dropped, pairings, permissions
from shared.db.alerts import alerts, tellings
from shared.db.alerts.alerts import Trouble
from shared.db.engine.connection import rows, transaction
from shared.db.queue import messages, sessions
from shared.db.roster import memory_lines
from shared.db.roster.memory_lines import LineAuthor, NewLine
from shared.db.spending import usage
from shared.db.spending.usage import Tokens, TurnName
from shared.queue import turns
from shared.queue.turns import Failure, RetryPolicy, TurnReply
from shared.rest.endpoints import ENDPOINTS
from shared.roster import alert_routes
from tests.api_client import ask, call, get
from tests.approval_requests import ask_sender, event, person
from tests.support import NOW, make_agent, make_chat, put, take, wire


@pytest.fixture
def document(serving, conn):
    return get(serving, "/api/openapi.json").json()


def _served():
    return {(method, route.path) for route in api._routes[1:] for method in route.methods - {"HEAD"}}


def test_the_document_names_every_route_and_no_other(document):
    told = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    assert told == _served() == {(each.method, each.path) for each in ENDPOINTS}
    names = [operation["operationId"] for item in document["paths"].values() for operation in item.values()]
    assert len(names) == len(set(names))


def test_every_schema_has_a_name_of_its_own(document):
    """Where two types share a name, pydantic puts their modules into the names of the schemas."""
    assert [name for name in document["components"]["schemas"] if not name.isalnum() or name.endswith("View")] == []


@pytest.mark.any_python
def test_the_document_is_openapi(document):
    openapi_spec_validator.validate(document)


def test_every_operation_says_what_it_does_and_what_it_may_refuse(document):
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert operation["summary"], (method, path)
            assert {"401", "403"} <= operation["responses"].keys()
            assert {part["name"] for part in operation["parameters"] if part["in"] == "path"} == {
                part[1:-1] for part in path.split("/") if part.startswith("{")
            }


def test_the_document_names_the_refusals_of_bodies_and_row_ids(document):
    responses = document["paths"]["/api/message"]["post"]["responses"]
    assert {"200", "400", "401", "403", "404", "409", "413", "503"} == responses.keys()
    assert "404" in document["paths"]["/api/responses/{id}/ack"]["post"]["responses"]


@pytest.fixture
def lived_in(conn):
    """A database with at least one row of every kind."""
    make_agent(conn, "coder")
    make_agent(conn, "unused")
    make_agent(conn, "asking", provider="claude")
    chat = make_chat(conn, "100", is_group=True)
    wire(conn, chat)
    with transaction(conn):
        dropped.record(conn, channel="telegram", reason="not_wired", now_ms=NOW)
        usage.add(conn, TurnName("turn_1", "coder", "session_1"), "m", "key", Tokens(1), None, now_ms=NOW)
        permissions.put(
            conn, agent="coder", chat_id=chat, tool="Write", arguments={}, granted_by=None, granted_name="x", now_ms=1
        )
        pairings.add(conn, code_hash="x", grants="owner", agent=None, expires_at=NOW, now_ms=1)
    chats_person, stranger = person(conn, "6"), event(chat="100")
    assert (chats_person.id, ask_sender(conn, stranger).outcome) == (1, "held")
    rows(conn, "UPDATE approvals SET approval_id = 'approval_00000001'")
    rows(conn, "UPDATE permissions SET permission_id = 'permission_00000001'")
    rows(conn, "UPDATE pairings SET pairing_id = 'pairing_00000001'")
    put(conn, "answered", given_id="done_1")
    claim = take(conn)
    with transaction(conn):
        turns.settle(conn, claim, [TurnReply("answer", claim.asked[0])], None, now_ms=NOW)
        messages.announce(conn)
    for name in ("dead_1", "dead_2"):
        put(conn, "given up", given_id=name)
        claim = take(conn)
        with transaction(conn):
            turns.fail(conn, claim, Failure("bad", retryable=False), RetryPolicy(5, 1, 1, 0.0), now_ms=NOW)
    put(conn, "running", agent="coder", given_id="running_1")
    take(conn, agent="coder", token="turn_b")
    put(conn, "waiting", given_id="waiting_1")
    rows(conn, "UPDATE sessions SET session_id = 'session_' || id")
    with transaction(conn):
        line = NewLine("Ana likes tea.", False, "turn_1", "done_1", (LineAuthor("telegram", "5", "Ana"),))
        memory_lines.add(conn, sessions.known(conn, 1), line, now_ms=NOW)
    rows(conn, "UPDATE memory_lines SET line_id = 'memory_00000001'")
    rows(conn, "UPDATE responses SET status = 'dead', last_error = 'gone' WHERE id = 2 OR id = 3")
    with transaction(conn):
        alert_routes.save(conn, "ops", chat, {}, now_ms=NOW)
        alerts.note(conn, [Trouble("disk", "disk", "It fills", "So it is.", "Delete files.", NOW)], now_ms=NOW)
        tellings.begin(conn, 1, "ops", said_by="ops", response=1, now_ms=NOW)
    return conn


MINE = {"message": "hi", "messageId": "mine"}
RESPONSE = {"channel": "cli", "sender": "Bo", "message": "hi"}
TEAM = {"name": "The Crew", "agents": ["assistant", "coder"], "leader_agent": "coder"}
CHAT = {"channel": "telegram", "platformId": "-100200", "isGroup": True, "senderPolicy": "request_approval"}
USER = {"channel": "telegram", "senderId": "4711", "name": "Ana"}
LETTER = {"recipient": "coder", "body": "look", "urgency": "urgent"}
DAILY = {"agentId": "coder", "message": "tidy up", "cron": "0 9 * * *", "label": "daily"}
SAMPLES = {
    ("POST", "/api/message"): [
        *((MINE, 200), (MINE, 409), ({"message": ""}, 400), ({"message": "hi", "agent": "nobody"}, 404))
    ],
    ("GET", "/api/messages/{id}"): [("done_1", 200), ("dead_1", 200), ("running_1", 200), ("nobody", 404)],
    ("GET", "/api/messages/{id}/why"): [("waiting_1", 200), ("dead_1", 200), ("nobody", 404)],
    ("GET", "/api/messages/{id}/turns"): [("done_1", 200), ("running_1", 200), ("nobody", 404)],
    ("POST", "/api/messages/{id}/cancel"): [("waiting_1", 200), ("waiting_1", 409), ("nobody", 404)],
    ("GET", "/api/queue/status"): [200],
    ("GET", "/api/queue/agents"): [200],
    ("GET", "/api/queue/pending"): [200, ("?agent=coder", 200)],
    ("GET", "/api/queue/processing"): [200],
    ("POST", "/api/queue/processing/{id}/kill"): [("4", 200), ("4", 404), ("x", 404)],
    ("GET", "/api/queue/dead"): [200],
    ("POST", "/api/queue/dead/{id}/retry"): [("2", 200), ("2", 404)],
    ("DELETE", "/api/queue/dead/{id}"): [("3", 200), ("3", 404)],
    ("POST", "/api/queue/dead/retry"): [200, ("?limit=0", 400)],
    ("POST", "/api/responses"): [(RESPONSE, 200), ({**RESPONSE, "agent": "nobody"}, 404), ({}, 400)],
    ("POST", "/api/files"): [({"any": "bytes"}, 200), 400],
    ("POST", "/api/messages/{id}/reaction"): [(("nobody", {"emoji": "👍"}), 404), (("done_1", {}), 400)],
    ("POST", "/api/responses/{id}/reaction"): [(("4000", {"emoji": "👍"}), 404), (("2", {"emoji": "👍"}), 409)],
    ("POST", "/api/responses/{id}/edit"): [(("4000", {"message": "x"}), 404), (("2", {"message": "x"}), 409)],
    ("GET", "/api/responses"): [200, ("?limit=0", 400)],
    ("GET", "/api/responses/pending"): [("?channel=cli", 200), 400],
    ("POST", "/api/responses/{id}/ack"): [("4", 200), ("4000", 404), ("1", 409)],
    ("GET", "/api/responses/dead"): [200, ("?before=0", 400)],
    ("POST", "/api/responses/{id}/retry"): [("2", 200), ("2", 409), ("4000", 404)],
    ("DELETE", "/api/responses/{id}"): [("3", 200), ("3", 404), ("2", 409)],
    ("POST", "/api/responses/dead/retry"): [200, ("?after=-1", 400)],
    ("GET", "/api/usage"): [200, ("?before=0", 400)],
    ("GET", "/api/usage/totals"): [("?since=0", 200), ("?since=-1", 400)],
    ("GET", "/api/usage/days"): [("?since=0", 200), ("?since=-1", 400)],
    ("PUT", "/api/budgets/{period}/{unit}"): [
        (("day money", {"amount": 5}), 200),
        (("week money", {"amount": 5}), 404),
    ],
    ("PUT", "/api/agents/{id}/budgets/{period}/{unit}"): [
        *((("coder month tokens", {"amount": 5}), 200), (("nobody day money", {"amount": 5}), 404)),
        (("coder day money", {}), 400),
    ],
    ("GET", "/api/budgets"): [200, ("?agent=coder", 200)],
    ("DELETE", "/api/budgets/{period}/{unit}"): [("day money", 200), ("day money", 404)],
    ("DELETE", "/api/agents/{id}/budgets/{period}/{unit}"): [
        *(("coder month tokens", 200), ("coder month tokens", 404)),
    ],
    ("GET", "/api/agents"): [200],
    ("GET", "/api/agents/{id}"): [("assistant", 200), ("nobody", 404)],
    ("PUT", "/api/agents/{id}"): [
        *(
            (("new", {}), 200),
            (("new", {"model": "x"}), 200),
            (("NEW", {}), 400),
            (("assistant", {"default": False}), 409),
        )
    ],
    ("POST", "/api/agents/{id}/pause"): [*((("assistant", {}), 200), (("assistant", {}), 409), (("nobody", {}), 404))],
    ("POST", "/api/agents/{id}/resume"): [("assistant", 200), ("nobody", 404)],
    ("DELETE", "/api/agents/{id}"): [("unused", 200), ("unused", 404), ("assistant", 409)],
    ("GET", "/api/agent-messages"): [200],
    ("GET", "/api/agents/{id}/messages"): [("assistant", 200)],
    ("GET", "/api/agents/{id}/system-prompt"): [("assistant", 200), ("nobody", 404)],
    ("PUT", "/api/agents/{id}/system-prompt"): [
        *((("assistant", {"content": "x"}), 200), (("nobody", {"content": "x"}), 404))
    ],
    ("PUT", "/api/agents/{id}/heartbeat"): [
        *((("assistant", {"enabled": True, "interval": 3600}), 200), (("nobody", {"enabled": True}), 404)),
        (("assistant", {"interval": 0}), 400),
    ],
    ("GET", "/api/agents/{id}/heartbeat"): [("assistant", 200), ("nobody", 404)],
    ("GET", "/api/agents/{id}/skills"): [("assistant", 200), ("nobody", 404)],
    ("GET", "/api/agents/{id}/skills/registry"): [("assistant", 200), ("nobody", 404)],
    ("GET", "/api/agents/{id}/memory"): [("assistant", 200), ("nobody", 404)],
    ("DELETE", "/api/agents/{id}/memory/{line}"): [
        *(("assistant memory_00000001", 200), ("assistant memory_00000001", 404), ("nobody x", 404))
    ],
    ("DELETE", "/api/agents/{id}/memory"): [("assistant", 200), ("assistant?channel=telegram", 400), ("nobody", 404)],
    ("PUT", "/api/teams/{id}"): [(("crew", TEAM), 200), (("CREW", TEAM), 400), (("fresh", {}), 400)],
    ("GET", "/api/teams"): [200],
    ("GET", "/api/teams/{id}"): [("crew", 200), ("none", 404)],
    ("PUT", "/api/roster"): [
        *(({"agents": {"assistant": {}}, "default": "assistant"}, 200), ({"default": "nobody"}, 400)),
        *(({"agents": {"assistant": {"default": True}}}, 400), ({"agents": {"x": {"provider": "none"}}}, 400)),
    ],
    ("POST", "/api/imports"): [
        ({"source": "nanoclaw", "heartbeats": {"assistant": {"interval": 3600}}}, 200),
        ({"source": "nanoclaw", "heartbeats": {"nobody": {"interval": 3600}}}, 400),
    ],
    ("PUT", "/api/agents/{id}/files"): [
        *((("assistant", {"path": "a.md", "text": "x"}), 200), (("none", {"path": "a.md", "text": "x"}), 404)),
        (("assistant", {"path": "../a.md", "text": "x"}), 400),
    ],
    ("POST", "/api/chatroom/{id}"): [(("crew", {"message": "hi"}), 200), (("none", {"message": "hi"}), 404)],
    ("GET", "/api/chatroom/{id}"): [("crew", 200), ("none", 404)],
    ("DELETE", "/api/teams/{id}"): [("crew", 200), ("crew", 404)],
    ("POST", "/api/schedules"): [(DAILY, 200), (DAILY, 400), ({**DAILY, "agentId": "nobody", "label": "x"}, 404)],
    ("GET", "/api/schedules"): [200, ("?agent=coder", 200)],
    ("PUT", "/api/schedules/{id}"): [(("daily", {"enabled": False}), 200), (("none", {}), 404)],
    ("GET", "/api/schedules/{id}/runs"): [("daily", 200), ("none", 404)],
    ("DELETE", "/api/schedules/{id}"): [("daily", 200), ("daily", 404)],
    ("GET", "/api/past"): [200],  # what is answered on a copy of the past: tests/functions/past
    ("POST", "/api/past/replays"): [({"session": "session_1", "agent": "coder"}, 409), ({}, 400)],
    ("POST", "/api/past/replays/{id}/messages"): [(("session_1", {"message": "done_1"}), 409)],
    ("GET", "/api/sessions"): [200, ("?before=2&limit=1", 200), ("?limit=1001", 400), ("?status=open", 400)],
    ("GET", "/api/sessions/{id}"): [("session_1", 200), ("nobody", 404)],
    ("GET", "/api/sessions/{id}/messages"): [("session_1", 200), ("nobody", 404)],
    ("POST", "/api/sessions/{id}/reset"): [("session_1", 200), ("session_1", 409), ("nobody", 404)],
    ("POST", "/api/sessions/{id}/replay"): [("session_1", 200), ("nobody", 404)],
    ("POST", "/api/accounts"): [
        ({"platform": "telegram", "name": "sales"}, 200),
        ({"platform": "pigeon", "name": "loft"}, 400),
    ],
    ("GET", "/api/accounts"): [200],
    ("GET", "/api/accounts/{name}"): [("telegram.sales", 200), ("telegram.gone", 404)],
    ("PATCH", "/api/accounts/{name}"): [(("telegram.sales", {"agent": "coder"}), 200)],
    ("DELETE", "/api/accounts/{name}"): [("telegram.sales", 200), ("telegram", 409)],
    ("GET", "/api/chats"): [200, ("?channel=telegram&platformId=100", 200), ("?before=0", 400)],
    ("POST", "/api/chats"): [(CHAT, 200), (CHAT, 409), ({**CHAT, "senderPolicy": "open"}, 400)],
    ("GET", "/api/chats/{id}"): [("1", 200), ("4000", 404)],
    ("PATCH", "/api/chats/{id}"): [
        *((("1", {"name": "Us"}), 200), (("4000", {}), 404), (("1", {"refused": True}), 409), (("1", {"x": 1}), 400))
    ],
    ("DELETE", "/api/chats/{id}"): [("4000", 404), ("1", 409)],
    ("GET", "/api/wirings"): [200, ("?agent=assistant", 200)],
    ("GET", "/api/chats/{id}/wirings"): [("1", 200), ("4000", 404)],
    ("GET", "/api/chats/{id}/wirings/{agent}"): [("1 assistant", 200), ("1 coder", 404)],
    ("PUT", "/api/chats/{id}/wirings/{agent}"): [
        *((("1 coder?others=refuse", {}), 409), (("1 coder", {}), 200), (("4000 coder", {}), 404)),
        (("1 nobody", {}), 404),
        (("1 coder", {"engageMode": "pattern"}), 400),
    ],
    ("DELETE", "/api/chats/{id}/wirings/{agent}"): [("1 coder", 200), ("1 coder", 404)],
    ("POST", "/api/users"): [(USER, 200), (USER, 200), ({}, 400)],
    ("GET", "/api/users"): [200, ("?agent=coder", 200)],
    ("GET", "/api/users/{id}"): [("1", 200), ("4000", 404)],
    ("PUT", "/api/users/{id}/roles/{role}"): [
        *(("1 owner", 200), ("1 admin?agent=coder", 200), ("1 king", 400), ("1 owner?agent=coder", 400)),
        *(("4000 owner", 404), ("1 admin?agent=nobody", 404)),
    ],
    ("DELETE", "/api/users/{id}/roles/{role}"): [("1 owner", 409), ("1 owner?force=true", 200), ("1 owner", 404)],
    ("PUT", "/api/users/{id}/members/{agent}"): [
        *((("1 coder", {}), 200), (("1 coder", {"isRefused": True}), 409), (("1 nobody", {}), 404))
    ],
    ("DELETE", "/api/users/{id}/members/{agent}"): [("1 coder", 200), ("1 coder", 404)],
    ("DELETE", "/api/users/{id}"): [("1", 200), ("1", 404), ("2", 409)],
    ("PUT", "/api/agents/{id}/destinations/{name}"): [
        *((("coder boss", {"toAgent": "assistant"}), 200), (("coder boss", {"chatId": 1}), 409)),
        *((("coder x", {}), 400), (("nobody x", {"chatId": 1}), 404)),
    ],
    ("GET", "/api/tools"): [200],
    ("POST", "/api/agents/{id}/tools/{name}"): [
        *((("coder list_tasks", {}), 200), (("coder send_message", {"arguments": {"text": 5}}), 200)),
        *((("nobody list_tasks", {}), 404), (("coder list_tasks", {"chatId": 0}), 400)),
        (("coder list_tasks", {"chatId": 999}), 404),
    ],
    ("GET", "/api/destinations"): [200, ("?agent=coder", 200)],
    ("DELETE", "/api/agents/{id}/destinations/{name}"): [
        *(("coder boss", 200), ("coder boss", 404), ("assistant chat-1", 404), ("assistant us", 409))
    ],
    ("GET", "/api/approvals"): [200, ("?status=pending", 200), ("?status=lost", 400)],
    ("GET", "/api/approvals/{id}"): [("approval_00000001", 200), ("nobody", 404)],
    ("POST", "/api/approvals/{id}/decide"): [
        *((("approval_00000001", {"choice": 9}), 409), (("approval_00000001", {"approve": True}), 200)),
        *((("approval_00000001", {"approve": True}), 409), (("nobody", {"approve": True}), 404)),
        (("approval_00000001", {}), 400),
    ],
    ("GET", "/api/tool-servers"): [200],
    ("PUT", "/api/tool-servers/{name}"): [
        (("weather", {"command": ["weather"], "tools": {"look": "Looks."}}), 200),
        (("postroom", {"command": ["weather"], "tools": {"look": "Looks."}}), 400),
    ],
    ("PUT", "/api/agents/{id}/tool-servers/{name}"): [
        *(("asking weather", 200), ("coder weather", 409), ("asking nothing", 404), ("nobody weather", 404)),
    ],
    ("DELETE", "/api/agents/{id}/tool-servers/{name}"): [
        *(("asking weather", 200), ("asking weather", 404), ("nobody weather", 404)),
    ],
    ("DELETE", "/api/tool-servers/{name}"): [("weather", 200), ("weather", 404)],
    ("PUT", "/api/alerts/routes/{name}"): [
        *((("ops", {"chatId": 1, "quietHours": "22:00-07:00"}), 200), (("ops", {"kinds": ["dead"]}), 200)),
        *((("ops", {"kinds": ["all"]}), 400), (("OPS", {"chatId": 1}), 400), (("ops", {"chatId": 4000}), 404)),
        (("new", {}), 400),
    ],
    ("GET", "/api/alerts"): [200, ("?limit=0", 400)],
    ("GET", "/api/alerts/routes"): [200],
    ("DELETE", "/api/alerts/routes/{name}"): [("ops", 200), ("ops", 404)],
    ("GET", "/api/permissions"): [200, ("?agent=coder", 200)],
    ("DELETE", "/api/permissions/{id}"): [("permission_00000001", 200), ("permission_00000001", 404)],
    ("POST", "/api/pairings"): [({}, 200), ({"grants": "member"}, 400), ({"grants": "member", "agent": "no"}, 404)],
    ("GET", "/api/pairings"): [200],
    ("DELETE", "/api/pairings/{id}"): [("pairing_00000001", 200), ("pairing_00000001", 409), ("nobody", 404)],
    ("GET", "/api/why"): [("?ref=x", 200), ("?senderId=5&limit=1", 200), ("", 400), ("?chatId=4000", 404)],
    ("GET", "/api/dropped"): [200, ("?reason=not_wired&channel=telegram&since_id=0", 200), ("?chatId=4000", 404)],
    ("GET", "/api/events"): [200],
    ("POST", "/api/mail"): [
        *((LETTER, 200), ({**LETTER, "recipient": "nobody"}, 404), ({**LETTER, "sender": "coder"}, 409), ({}, 400))
    ],
    ("GET", "/api/mail/urgent"): [200],
    ("GET", "/api/messages/{id}/thread"): [("done_1", 200), ("nobody", 404)],
    ("POST", "/api/messages/{id}/reply"): [(("done_1", {"body": "hm"}), 200), (("nobody", {"body": "hm"}), 404)],
    ("GET", "/api/agents/{id}/mail"): [("coder", 200), ("nobody", 404)],
    ("POST", "/api/agents/{id}/mail/consume"): [("coder", 200), ("nobody", 404)],
    ("GET", "/api/search"): [("?q=answer", 200), ("?q=a", 400), 400],
    ("GET", "/api/health"): [200],
    ("GET", "/api/overview"): [200],
    ("GET", "/api/lists/waiting"): [("?agent=assistant&reason=due", 200), ("?limit=0", 400), ("?chatId=4000", 404)],
    ("GET", "/api/lists/running"): [200, ("?chatId=4000", 404)],
    ("GET", "/api/lists/dead"): [200, ("?chatId=4000", 404)],
    ("GET", "/api/lists/done"): [("?since=1&until=2&senderId=5", 200), ("?chatId=4000", 404)],
    ("GET", "/api/lists/sending"): [200],
    ("GET", "/api/lists/unsent"): [200],
    ("GET", "/api/lists/chats"): [200],
    ("GET", "/api/lists/unanswered"): [200, ("?what=dropped&code=not_wired", 200), ("?what=lost", 400)],
    ("GET", "/api/find"): [("?q=ana", 200), ("", 400)],
    ("GET", "/api/calendar"): [200, ("?since=1&days=2", 200), ("?days=40", 400)],
    ("GET", "/api/chats/{id}/log"): [("1", 200), ("4000", 404)],
    ("GET", "/api/status"): [200],
    ("GET", "/api/replica"): [200],
    ("GET", "/api/logs"): [200],
    ("GET", "/api/settings"): [200],
    ("GET", "/api/tasks"): [200],
    ("GET", "/api/projects"): [200],
    ("GET", "/api/custom-providers"): [200],
    ("GET", "/api/pairing"): [200],
    ("GET", "/api/openapi.json"): [200],
}


def test_every_answer_has_the_documented_status_and_shape(serving, lived_in, document):
    """Calls every endpoint, and checks the status and the shape of each answer."""
    for (method, path), samples in SAMPLES.items():
        for sample in samples:
            given, status = sample if isinstance(sample, tuple) else (None, sample)
            reply = _send(serving, method, path, given)
            assert reply.status_code == status, (method, path, given, reply.text)
            _check(document, method, path, reply)


def _send(serving, method, path, given):
    name, body = given if isinstance(given, tuple) else (given, None) if isinstance(given, str) else ("", given)
    return ask(serving, method, _filled(path, name), body)


def _filled(path, name):
    """The path with the words of *name* as its parameters, and with the query of *name*."""
    name, mark, query = name.partition("?")
    for word in name.split():
        path = re.sub("{[a-z]+}", word, path, count=1)
    return path + mark + query


def _check(document, method, path, reply):
    told = document["paths"][path][method.lower()]["responses"][str(reply.status_code)]
    schema = told["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(reply.json())


def test_every_endpoint_is_sampled():
    """Endpoints that always refuse, and those that answer with text, have tests of their own."""
    refused = {(each.method, each.path) for each in ENDPOINTS if each.description.startswith("Refused")}
    every = {(each.method, each.path) for each in ENDPOINTS}
    texts = {("GET", path) for path in ("/api/events/stream", "/api/events/changes", "/metrics")}
    assert refused | SAMPLES.keys() | texts == every


def test_unsupported_features_are_refused_with_a_sentence(serving, conn, document):
    refused = [each for each in ENDPOINTS if each.description.startswith("Refused")]
    paths = [each.path.replace("{id}", "a").replace("{channel}", "c").replace("{sender}", "s") for each in refused]
    replies = call(serving, *((each.method, path, {"json": {}}) for each, path in zip(refused, paths, strict=True)))
    for each, reply in zip(refused, replies, strict=True):
        assert reply.status_code in (404, 501)
        _check(document, each.method, each.path, reply)


def test_an_undocumented_field_would_fail_the_check(document):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(
            {"$ref": "#/components/schemas/ServerStatus", "components": document["components"]}
        ).validate({"running": True, "port": 1, "more": 1})
