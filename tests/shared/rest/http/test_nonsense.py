"""Any request gets an answer or a refusal: never a server error, never silence."""

import asyncio
import json

import pytest

from functions import api
from shared.db.access import approvals, users
from shared.db.engine.connection import rows, transaction
from shared.db.roster import chats
from shared.rest.endpoints import ENDPOINTS
from shared.rest.http.endpoint import OPEN
from tests.api_client import stream
from tests.support import make_agent

VALUES = [None, True, 0, -1, 10**40, 1.5, "", " ", "\x00", "é" * 5000, "@", "../..", [], [[]], {}, {"a": {}}, ["x"]]
WHOLE = [b"", b"null", b"[]", b"7", b'"x"', b"{", b"[" * 5000, b'{"a":NaN}', b"\xff\xfe", b'{"message":"\\ud800"}']
NAMES = ["%00", "..%2f..", "'", "%F0%9F%98%80", "x" * 3000, "-1", "9" * 40, "%20", "null", "__class__", "{id}"]
QUERIES = ["limit=", "limit=1e400", "limit=0x10", "since_id=-1", "since=9999999999999999999", "before=0", "wait=inf"]
QUERIES += [
    "channel=%00",
    "channel=" + "x" * 5000,
    "agent=%FF",
    "types=,",
    "types=" + "x" * 5000,
    "limit=1&limit=x",
    "&&=;",
]
CHANGING = [each for each in ENDPOINTS if each.body is not None]
NAMED = [each for each in ENDPOINTS if each.parameters]
ASKED = [each for each in ENDPOINTS if each.query is not None and each.path != "/api/events/stream"]


def _title(each):
    return f"{each.method} {each.path}"


def check(serving, calls):
    """Send the calls and check each answer."""

    async def go():
        async with serving(api) as client:
            for method, path, content in calls:
                reply = await client.request(method, path, content=content)
                assert reply.status_code < 500 or reply.status_code == 501, (method, path, content, reply.text)
                if reply.status_code >= 400:
                    assert reply.json()["error"], (method, path)

    asyncio.run(go())


def _path(each, name="assistant"):
    path = each.path
    for parameter, kind in each.parameters.items():
        path = path.replace(f"{{{parameter}}}", name if kind is str or name != "assistant" else "1")
    return path


REQUEST = {"action": "create_agent", "arguments": {"name": "Nora"}}
PLAN = {"cron": "0 9 * * *", "message": "hi", "agentId": "assistant"}


def _call(serving, method, path, body=None):
    async def go():
        async with serving(api) as client:
            return await client.request(method, path, content=None if body is None else json.dumps(body))

    return asyncio.run(go())


@pytest.mark.parametrize("each", ASKED, ids=map(_title, ASKED))
def test_a_number_that_no_column_holds_is_refused_by_name(serving, conn, each):
    numbers = [name for name, field in each.query.model_fields.items() if "int" in str(field.annotation)]

    async def go():
        async with serving(api) as client:
            for name in numbers:
                for digits in (20, 4000):
                    reply = await client.request(each.method, f"{_path(each)}?{name}={'9' * digits}")
                    assert reply.status_code == 400, (name, digits, reply.text)
                    assert name in reply.json()["error"]

    asyncio.run(go())


@pytest.mark.parametrize("number", [10**20, -(10**20), 10**4000], ids=["20", "-20", "4000"])
def test_a_body_with_such_a_number_is_refused_too(serving, conn, number):
    reply = _call(serving, "POST", "/api/schedules", {**PLAN, "chatId": number})
    assert reply.status_code == 400, reply.text


STRICT = [each for each in CHANGING if not each.is_open]


@pytest.mark.parametrize("each", STRICT, ids=map(_title, STRICT))
def test_an_unknown_field_is_refused_with_the_known_names(serving, conn, each):
    reply = _call(serving, each.method, _path(each), {"graze": 1})
    assert reply.status_code == 400, reply.text
    error = reply.json()["error"]
    assert error.startswith("graze: there is no such field; known: ")
    assert set(error.partition("known: ")[2].split(", ")) == set(each.body.model_fields)


CLOSED = [each for each in ASKED if not each.is_open]


@pytest.mark.parametrize("each", CLOSED, ids=map(_title, CLOSED))
def test_an_unknown_parameter_is_refused_with_the_known_names(serving, conn, each):
    reply = _call(serving, each.method, f"{_path(each)}?agnet=x", {})
    assert reply.status_code == 400, reply.text
    assert reply.json()["error"].startswith("agnet: there is no such parameter; known: ")


def test_only_endpoints_of_tinyagi_ignore_unknown_names(serving, conn):
    assert {(each.method, each.path) for each in ENDPOINTS if each.is_open} == OPEN
    message = {"message": "hi", "files": ["a.png"], "madeByTinyAGI": True}
    assert _call(serving, "POST", "/api/message?x=1", message).status_code == 200
    assert _call(serving, "GET", "/api/responses/pending?channel=web&x=1").status_code == 200


def test_the_document_says_where_an_unknown_name_is_refused(serving, conn):
    document = _call(serving, "GET", "/api/openapi.json").json()
    for each in CHANGING:
        body = document["paths"][each.path][each.method.lower()]["requestBody"]["content"]["application/json"]["schema"]
        schema = document["components"]["schemas"][body["$ref"].rpartition("/")[2]] if "$ref" in body else body
        assert schema.get("additionalProperties", True) is each.is_open, each.path


NUMBERS = {
    "of a message": ("POST", "/api/message", {"message": "hi", "processAfter": "5"}, "processAfter: "),
    "of a schedule": ("POST", "/api/schedules", {**PLAN, "chatId": "3"}, "chatId: "),
    "of an agent": ("PUT", "/api/agents/assistant", {"concurrency": "2"}, "concurrency: "),
    "for a truth": ("PUT", "/api/agents/assistant", {"drafts": "true"}, "drafts: "),
    "of a budget": ("PUT", "/api/budgets/day/tokens", {"amount": "7"}, "amount: "),
}


@pytest.mark.parametrize("called", NUMBERS.values(), ids=NUMBERS)
def test_a_number_as_text_is_refused(serving, conn, called):
    method, path, body, begin = called
    reply = _call(serving, method, path, body)
    assert reply.status_code == 400, reply.text
    assert begin in reply.json()["error"]


@pytest.mark.parametrize("each", CHANGING, ids=map(_title, CHANGING))
def test_no_body_causes_a_server_error(serving, conn, each):
    make_agent(conn, "coder")
    fields = {
        **{"message": "x", "channel": "c", "sender": "s", "agentId": "coder", "cron": "0 9 * * *", "content": "x"},
        **{"name": "n", "agents": ["coder"], "leader_agent": "coder", "platformId": "p", "senderId": "s"},
        **{"toAgent": "coder", "grants": "owner", "choice": 0, "engageMode": "pattern", "engagePattern": "x"},
    }
    valid = {name: value for name, value in fields.items() if name in each.body.model_fields}
    if each.path == "/api/agents/{id}":
        valid = {"name": "n"}
    with transaction(conn):
        chats.ensure(conn, "c", "1", is_group=True, now_ms=1)
        users.ensure(conn, "c", "1", name="", now_ms=1)
        approvals.request(conn, approvals.NewApproval("action", REQUEST, agent="coder"), expires_at=10**15, now_ms=1)
    rows(conn, "UPDATE approvals SET approval_id = 'assistant'")
    bodies = [json.dumps({**valid, field: value}).encode() for field in each.body.model_fields for value in VALUES]
    check(serving, [(each.method, _path(each), content) for content in bodies + WHOLE])


@pytest.mark.parametrize("each", NAMED, ids=map(_title, NAMED))
def test_no_path_parameter_causes_a_server_error(serving, conn, each):
    check(serving, [(each.method, _path(each, name), b'{"message":"x","name":"x","content":"x"}') for name in NAMES])


@pytest.mark.parametrize("each", ASKED, ids=map(_title, ASKED))
def test_no_query_causes_a_server_error(serving, conn, each):
    check(serving, [(each.method, f"{_path(each)}?{query}", b"") for query in QUERIES])


def test_a_page_of_this_machine_may_read_the_stream(serving, conn):
    started = []

    async def go():
        async with serving(api), stream(origin="http://127.0.0.1", started=started):
            pass

    asyncio.run(go())
    headers = dict(started[0]["headers"])
    assert headers[b"access-control-allow-origin"] == b"http://127.0.0.1"
    assert headers[b"content-type"] == b"text/event-stream; charset=utf-8"
