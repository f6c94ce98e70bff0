import pytest

from shared.rest.endpoints import ENDPOINTS
from tests.api_client import ask, call

GUARDED = {
    "a name of the machine": ("GET", "127.0.0.1:3777", {}, None, 200),
    "localhost": ("GET", "localhost:3777", {}, None, 200),
    "IPv6": ("GET", "[::1]:3777", {}, None, 200),
    "a foreign name that resolves to this machine": ("GET", "evil.example:3777", {}, None, 403),
    "a name that begins like ours": ("GET", "127.0.0.1.evil.example", {}, None, 403),
    "an invalid host": ("GET", "[::1", {}, None, 400),
    "an invalid host, with the token": ("GET", "[::1", {"authorization": "Bearer s3cret"}, "s3cret", 400),
    "a page of another origin that reads": ("GET", "127.0.0.1:3777", {"origin": "https://evil.example"}, None, 403),
    "a page of another port that reads": ("GET", "127.0.0.1:3777", {"origin": "http://127.0.0.1:8080"}, None, 403),
    "a page of another port that writes": ("POST", "127.0.0.1:3777", {"origin": "http://localhost:3777"}, None, 403),
    "a page of another origin that writes": ("POST", "127.0.0.1:3777", {"origin": "https://evil.example"}, None, 403),
    "a page without an origin": ("POST", "127.0.0.1:3777", {"origin": "null"}, None, 403),
    "an origin that begins like ours": (
        "POST",
        "127.0.0.1:3777",
        {"origin": "http://localhost.evil.example"},
        None,
        403,
    ),
    "an origin that ends like ours": ("POST", "127.0.0.1:3777", {"origin": "http://evil.example@localhost"}, None, 403),
    "another program's origin": ("POST", "127.0.0.1:3777", {"origin": "chrome-extension://localhost"}, None, 403),
    "no token where one is set": ("GET", "127.0.0.1:3777", {}, "s3cret", 401),
    "a wrong token": ("GET", "127.0.0.1:3777", {"authorization": "Bearer guess"}, "s3cret", 401),
    "a token that is not ASCII": (
        "GET",
        "127.0.0.1:3777",
        {"authorization": "Bearer é".encode("latin-1")},
        "s3cret",
        401,
    ),
    "the token, through a proxy": (
        *("GET", "api.example", {"authorization": "Bearer s3cret", "x-forwarded-for": "203.0.113.7"}, "s3cret", 200),
    ),
    "the token": ("GET", "api.example", {"authorization": "Bearer s3cret"}, "s3cret", 200),
    "the token, and a page of another origin": (
        *("POST", "api.example", {"authorization": "Bearer s3cret", "origin": "https://evil.example"}, "s3cret", 400),
    ),
}


@pytest.mark.parametrize(("method", "host", "headers", "token", "status"), GUARDED.values(), ids=GUARDED)
def test_a_caller_needs_the_token_or_this_machine(serving, monkeypatch, method, host, headers, token, status):
    if token:
        monkeypatch.setenv("POSTROOM_API_TOKEN", token)
    path = "/api/queue/status" if method == "GET" else "/api/message"
    reply = ask(serving, method, path, headers={"host": host, **headers})
    assert reply.status_code == status
    assert "access-control-allow-origin" not in reply.headers
    if status >= 400:
        assert reply.json()["error"]


def test_every_path_below_api_needs_authorization(serving, monkeypatch):
    monkeypatch.setenv("POSTROOM_API_TOKEN", "s3cret")
    paths = {(each.method, each.path.replace("{id}", "1")) for each in ENDPOINTS} | {("GET", "/api/nothing")}
    replies = call(serving, *((method, path, {}) for method, path in paths))
    assert {reply.status_code for reply in replies} == {401}


NAMED = ["http://localhost:3000", "http://127.0.0.1:8080", "http://[::1]:1", "https://localhost"]
OWN = "http://127.0.0.1:3777"


@pytest.mark.parametrize("origin", [*NAMED, OWN])
@pytest.mark.parametrize("token", [None, "s3cret"])
def test_a_page_that_is_named_may_send_a_preflight_and_read_the_answer(serving, monkeypatch, origin, token):
    monkeypatch.setenv("POSTROOM_ORIGINS", ", ".join(NAMED))
    if token:
        monkeypatch.setenv("POSTROOM_API_TOKEN", token)
    bearer = {"authorization": f"Bearer {token}"} if token else {}
    preflight = {"origin": origin, "access-control-request-method": "PUT"}
    asked, answered, refused = call(
        serving,
        ("OPTIONS", "/api/agents/a", {"headers": {**preflight, "access-control-request-headers": "content-type"}}),
        ("POST", "/api/message", {"headers": {"origin": origin, **bearer}, "json": {"message": "hello"}}),
        ("GET", "/api/messages/none", {"headers": {"origin": origin, **bearer}}),
    )
    assert (asked.status_code, answered.status_code, refused.status_code) == (204, 200, 404)
    for reply in (asked, answered, refused):
        assert reply.headers["access-control-allow-origin"] == origin
        assert reply.headers["vary"] == "Origin"
        assert "access-control-allow-credentials" not in reply.headers
    assert {"GET", "POST", "PUT", "PATCH", "DELETE"} == set(asked.headers["access-control-allow-methods"].split(", "))
    assert "Content-Type" in asked.headers["access-control-allow-headers"]


@pytest.mark.parametrize("origin", ["https://evil.example", "https://office.tinyagicompany.com", "null", *NAMED])
@pytest.mark.parametrize("token", [None, "s3cret"])
def test_the_preflight_of_another_origin_is_refused(serving, monkeypatch, origin, token):
    if token:
        monkeypatch.setenv("POSTROOM_API_TOKEN", token)
    headers = {"origin": origin, "access-control-request-method": "GET"}
    reply = ask(serving, "OPTIONS", "/api/message", headers=headers)
    assert reply.status_code == 403
    assert not {name for name in reply.headers if name.startswith("access-control")}


@pytest.mark.parametrize("named", ["", "http://localhost:8080"])
@pytest.mark.parametrize("method", ["OPTIONS", "GET"])
def test_a_page_of_this_machine_that_is_refused_is_told_what_to_set(serving, monkeypatch, method, named):
    """TinyAGI's office: with that value it is let in."""
    monkeypatch.setenv("POSTROOM_ORIGINS", named)
    headers = {"origin": "http://localhost:3000", "access-control-request-method": "GET"}
    refused = ask(serving, method, "/api/agents", headers=headers)
    value = ",".join(filter(None, (named, "http://localhost:3000")))
    assert (refused.status_code, refused.json()["error"]) == (
        403,
        f"a page of 'http://localhost:3000' is refused: to let it in, set POSTROOM_ORIGINS={value} for api, restart",
    )
    monkeypatch.setenv("POSTROOM_ORIGINS", value)
    assert ask(serving, method, "/api/agents", headers=headers).status_code in (200, 204)


def test_a_page_of_another_machine_is_told_no_setting(serving):
    error = ask(serving, "GET", "/api/agents", headers={"origin": "https://evil.example"}).json()["error"]
    assert "POSTROOM_ORIGINS=" not in error


def test_health_needs_no_token(serving, monkeypatch):
    monkeypatch.setenv("POSTROOM_API_TOKEN", "s3cret")
    assert ask(serving, "GET", "/healthz").json() == {"ok": True, "function": "api"}
