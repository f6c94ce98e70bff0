"""The client of the REST API and its errors."""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from emulator.base.errors import EmulatorError
from emulator.base.hints import command_line
from emulator.base.state import FolderLock, StateFolder
from emulator.cli import client
from emulator.cli.client import RestClient
from shared.core.time import clock
from shared.db.engine.owner_only import replace_text


@contextlib.contextmanager
def answering(status: int, body: bytes) -> Iterator[tuple[str, list[Any]]]:
    """A server that sends the same response to every request; yields its address and the requests."""
    asked: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            asked.append((self.command, self.path, self.rfile.read(length), self.headers.get("Authorization")))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = do

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_request_has_a_path_of_segments_a_query_and_json() -> None:
    with answering(200, b'{"ok": true}') as (url, asked):
        api = RestClient(url, "s3cret")
        assert api.get("users", "a b?c", limit=3, agent=None) == {"ok": True}
        api.put("users", 7, body={"name": "Ana"})
        api.delete("users", 7)
    assert asked == [
        ("GET", "/api/users/a%20b%3Fc?limit=3", b"", "Bearer s3cret"),
        ("PUT", "/api/users/7", b'{"name": "Ana"}', "Bearer s3cret"),
        ("DELETE", "/api/users/7", b"", "Bearer s3cret"),
    ]


def test_half_a_character_of_an_argument_costs_itself_and_not_the_request() -> None:
    """Python makes one of each byte that is not UTF-8."""
    with answering(200, b"{}") as (url, asked):
        RestClient(url).put("users", "caf\udce9", body={"name": "caf\udce9 \ud83d\ude00"}, q="caf\udce9")
    ((_, path, body, _),) = asked
    assert path == "/api/users/caf%EF%BF%BD?q=caf%EF%BF%BD"
    assert json.loads(body) == {"name": "caf\ufffd \U0001f600"}


@pytest.mark.parametrize(
    ("status", "said", "ahead_ms"),
    [
        (200, {"past": None, "now": 1_900_000_000_000}, None),
        (200, {"past": {"at": 1_900_000_000_000}, "now": 1}, None),
        (404, {"error": "Not Found"}, 0),
    ],
    ids=["a clock that was moved", "a copy of the past", "an earlier release"],
)
def test_the_time_is_that_of_the_rows_and_is_asked_once_where_it_is_needed(
    status: int, said: dict[str, Any], ahead_ms: int | None
) -> None:
    with answering(status, json.dumps(said).encode()) as (url, asked):
        with client.time_of(RestClient(url)):
            assert asked == []
            first, again = clock.now_ms(), clock.now_ms()
        assert [path for _, path, *_ in asked] == ["/api/past"]
    expected = 1_900_000_000_000 if ahead_ms is None else clock.machine_ms() + ahead_ms
    assert expected - 60_000 < first <= again < expected + 60_000
    assert abs(clock.now_ms() - clock.machine_ms()) < 60_000


@pytest.mark.parametrize("segment", ["", ".", "..", "../agents", "a/b"])
def test_an_id_that_would_change_the_path_is_never_sent(segment: str) -> None:
    with answering(200, b"{}") as (url, asked), pytest.raises(EmulatorError, match="is not an id") as refused:
        RestClient(url).delete("agents", segment)
    assert (asked, refused.value.exit_code) == ([], 65)


REFUSALS = {
    "what can't be": (400, b'{"error": "no such zone"}', 65, "^no such zone$"),
    "what is not there": (404, b'{"error": "no session"}', 66, "^no session$"),
    "what its state forbids": (409, b'{"error": "is closed"}', 1, "^is closed$"),
    "another machine": (403, b'{"error": "refused"}', 77, "^refused$"),
    "no token": (401, b'{"error": "send it"}', 77, "requires a token: set POSTROOM_API_TOKEN"),
    "not replicated": (503, b'{"error": "not yet"}', 75, "^not yet$"),
    "a path that it does not have": (404, b'{"error": "Not Found"}', 1, "has no GET /api/x: it is another rel"),
    "a page of somebody else": (404, b"<html>", 1, "has no GET /api/x"),
    "a fault": (500, b"oops", 1, "answered 500 to GET /api/x; the reason is in its log"),
    "what is no JSON": (200, b"<html>", 1, "answered 200 to GET /api/x"),
}


@pytest.mark.parametrize(("status", "body", "code", "sentence"), REFUSALS.values(), ids=REFUSALS)
def test_an_error_of_the_api_keeps_its_sentence_and_gets_an_exit_code(
    status: int, body: bytes, code: int, sentence: str
) -> None:
    with answering(status, body) as (url, _), pytest.raises(EmulatorError, match=sentence) as refused:
        RestClient(url).get("x")
    assert refused.value.exit_code == code


def test_a_token_that_is_refused_is_not_called_missing() -> None:
    with answering(401, b'{"error": "send it"}') as (url, _), pytest.raises(EmulatorError) as refused:
        RestClient(url, token="wrong").get("x")
    assert "refuses the token in POSTROOM_API_TOKEN" in str(refused.value)


def test_a_list_route_in_an_error_becomes_a_command() -> None:
    said = b'{"error": "there is no chat 9; GET /api/chats lists them"}'
    with answering(404, said) as (url, _), pytest.raises(EmulatorError) as refused:
        RestClient(url, state=Path("here")).get("chats", 9)
    assert str(refused.value) == f"there is no chat 9; `{command_line('chats list', Path('here'))}` lists them"


def test_a_route_in_an_error_becomes_a_command() -> None:
    said = b'{"error": "cancel them (POST /api/messages/{id}/cancel, DELETE /api/schedules/{id})"}'
    with answering(409, said) as (url, _), pytest.raises(EmulatorError) as refused:
        RestClient(url, state=Path("here")).delete("agents", "coder")
    ways = [command_line(each, Path("here")) for each in ("messages cancel MESSAGE", "schedules cancel SCHEDULE")]
    assert str(refused.value) == f"cancel them (`{ways[0]}`, `{ways[1]}`)"


def test_an_address_without_a_listener_is_named_in_the_error() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(EmulatorError, match=f"{url} does not answer: ") as refused:
            RestClient(url).get("x")
    assert refused.value.exit_code == 69


def test_a_change_without_a_response_may_be_done_or_not() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        api = RestClient(f"http://127.0.0.1:{silent.getsockname()[1]}", limit_s=0.05)
        for call, sentence in ((api.get, "within 0.05 s$"), (api.post, "the change may be done or not")):
            with pytest.raises(EmulatorError, match=sentence) as refused:
                call("x")
            assert refused.value.exit_code == 75


# -- where it is


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    folder = StateFolder(tmp_path / "state")
    folder.prepare()
    return folder


@pytest.fixture
def lock(state: StateFolder) -> Iterator[Callable[[], None]]:
    held = FolderLock(state)
    yield held.take
    held.release()


def test_the_running_emulator_gives_the_address_and_the_token(state: StateFolder, lock: Callable[[], None]) -> None:
    lock()
    with pytest.raises(EmulatorError, match="still starting") as refused:
        client.find(state.path, None, {})
    assert refused.value.exit_code == 75

    instance = {"urls": {"api": "http://127.0.0.1:3777"}, "environment": {"POSTROOM_API_TOKEN": "s3cret"}}
    replace_text(state.instance_file, json.dumps(instance))
    found = client.find(state.path, None, {"POSTROOM_API_TOKEN": "another's"})
    assert (found.url, found.token, found.state) == ("http://127.0.0.1:3777", "s3cret", state.path)
    assert "s3cret" not in repr(found)
    assert found.command_line("pair") == f"{command_line()} pair --state {state.path}", (
        "a hint is about the same folder"
    )


def test_a_named_folder_overrules_the_environment_but_not_the_command_line(state: StateFolder) -> None:
    url = "http://127.0.0.1:3777"
    with pytest.raises(EmulatorError, match="no emulator is running in"):
        client.find(state.path, url, {"POSTROOM_URL": url})
    with pytest.raises(EmulatorError, match="two different Postrooms") as refused:
        client.find(state.path, url, {})
    assert refused.value.exit_code == 64


def test_without_a_running_emulator_the_error_says_how_to_start_it(state: StateFolder) -> None:
    with pytest.raises(EmulatorError, match="POSTROOM_URL") as refused:
        client.find(state.path, None, {})
    assert f"`{command_line('run', state.path)}`" in str(refused.value)
    assert refused.value.exit_code == 69


def test_an_address_gets_the_token_of_the_environment() -> None:
    found = client.find(None, "https://postroom.example/", {"POSTROOM_API_TOKEN": "s3cret"})
    assert (found.url, found.token) == ("https://postroom.example", "s3cret")
    assert client.find(None, "http://localhost:1", {"POSTROOM_API_TOKEN": "s3cret"}).token == "s3cret"
    assert client.find(None, "http://elsewhere:1", {}).token is None


def test_a_hint_names_the_address_that_the_next_command_needs_too() -> None:
    url = "http://127.0.0.1:3777"
    assert client.find(None, url, {}).command_line("pair") == f"{command_line('pair')} --url {url}"
    assert client.find(None, url, {"POSTROOM_URL": url}).command_line("pair") == command_line("pair")


@pytest.mark.parametrize(
    "url", ["127.0.0.1:3777", "ftp://a", "http://", "http://a:port", "http://u:p@a", "http://a/api", "http://a?x"]
)
def test_an_address_that_can_not_be_used_is_refused(url: str) -> None:
    with pytest.raises(EmulatorError, match=r"such as http://127.0.0.1:3777") as refused:
        client.find(None, url, {})
    assert refused.value.exit_code == 64


def test_the_token_is_never_sent_unencrypted_to_another_machine() -> None:
    with pytest.raises(EmulatorError, match="unencrypted: use https or a tunnel") as refused:
        client.find(None, "http://postroom.example", {"POSTROOM_API_TOKEN": "s3cret"})
    assert refused.value.exit_code == 77
    assert "s3cret" not in str(refused.value)
