"""The few requests to a bucket or a folder: conditional writes, names in order, and clear words for what went wrong."""

import http.server
import json
import os
import socketserver
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from shared.core.errors import ConfigInvalid
from shared.db.replica.credentials import CredentialsMissing, CredentialsUnreachable, obstore_config
from shared.db.replica.object_store import ObjectStore, open_store
from shared.db.replica.stored_objects import CLOCK, ObjectChanged, StoreRefused, StoreUnreachable
from tests.emulator.storage.test_s3_server import ENVIRONMENT, s3_server
from tests.infra.processes import kept_port


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with s3_server(tmp_path_factory.mktemp("bucket") / "s3") as port:
        yield port


@pytest.fixture(params=["file", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "file":
        return open_store(f"file://{tmp_path}/a folder/replica", {})
    endpoint = f"http://127.0.0.1:{request.getfixturevalue('port')}"
    return open_store(f"s3://postroom-replica/{tmp_path.name}/a b?endpoint={endpoint}", ENVIRONMENT)


def test_a_write_replaces_the_version_that_its_writer_has_seen_and_nothing_else(store: ObjectStore) -> None:
    assert store.get("lease.json") is None
    first = store.put("lease.json", b"1", replacing=None)
    with pytest.raises(ObjectChanged):
        store.put("lease.json", b"2", replacing=None)
    second = store.put("lease.json", b"2", replacing=first)
    with pytest.raises(ObjectChanged):
        store.put("lease.json", b"3", replacing=first)

    found = store.get("lease.json")
    assert found is not None
    assert (found.body, found.tag) == (b"2", second)
    with pytest.raises(ObjectChanged):
        store.put("nothing.json", b"3", replacing=second)


def test_the_age_of_an_object_is_told_by_the_store_s_clock(store: ObjectStore) -> None:
    store.put("lease.json", b"1", replacing=None)
    found = store.get("lease.json")

    assert found is not None
    assert 0 <= store.now_s() - found.written_at_s < 30
    assert 0 <= store.now_s() - found.written_at_s < 30, "it can be asked again"


def test_the_first_name_behind_another(store: ObjectStore) -> None:
    for number in (1, 2, 9):
        store.put(f"e/{store.newest_ltx_files}{number}-{number}.ltx", b"x", replacing=None)

    newest = f"e/{store.newest_ltx_files}"
    assert store.first("e/" + store.ltx_files) == f"{newest}1-1.ltx"
    assert store.first(newest, after=f"{newest}2-2.ltx") == f"{newest}9-9.ltx"
    assert store.first(newest, after=f"{newest}9-9.ltx") is None
    assert store.first("f/") is None
    assert store.first(store.ltx_files) is None, "what lies in a folder below is not at the root"


def test_a_half_written_file_of_litestream_in_a_folder_does_not_count_and_can_be_deleted(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}", {})
    half = tmp_path / "e" / store.newest_ltx_files / "1-1.ltx.tmp"
    half.parent.mkdir(parents=True)
    half.touch()

    assert store.first("e/" + store.ltx_files) is None
    assert store.names("e/", limit=9) == [f"e/{store.newest_ltx_files}1-1.ltx.tmp"]


def test_names_come_in_order_and_a_deleted_object_is_gone(store: ObjectStore) -> None:
    for name in ("e/9", "e/0000/b", "e/0000/a&<b>", "f/1"):
        store.put(name, b"x", replacing=None)

    assert store.names("e/", limit=2) == ["e/0000/a&<b>", "e/0000/b"]
    assert store.names("e/", "e/0000/b", limit=1000) == ["e/9"]
    for name in (*store.names("e/", limit=1000), "e/never"):
        store.delete(name)
    assert store.names("", limit=1000) == ["f/1"]


def test_an_object_that_can_not_be_deleted_is_an_error(port: int, tmp_path: Path) -> None:
    (tmp_path / "e" / "x").mkdir(parents=True)
    with pytest.raises(StoreRefused, match="can't be deleted"):
        open_store(f"file://{tmp_path}", {}).delete("e/x")
    with pytest.raises(StoreRefused, match="NoSuchBucket"):
        open_store(f"s3://other/p?endpoint=http://127.0.0.1:{port}", ENVIRONMENT).delete("x")


def test_a_bucket_that_does_not_answer_is_named_with_the_reason() -> None:
    closed, port = kept_port()
    with (
        closed,
        pytest.raises(
            StoreUnreachable, match=rf"s3://b/p at http://127.0.0.1:{port} does not answer \(Connection refused\)"
        ),
    ):
        open_store(f"s3://b/p?endpoint=http://127.0.0.1:{port}", ENVIRONMENT).get("x")


def test_a_missing_bucket_is_refused(port: int) -> None:
    store = open_store(f"s3://other/p?endpoint=http://127.0.0.1:{port}", ENVIRONMENT)
    for ask in (
        lambda: store.get("x"),
        lambda: store.put("x", b"", replacing=None),
        lambda: store.put("x", b"", replacing='"a"'),
        lambda: store.first("x"),
    ):
        with pytest.raises(StoreRefused, match="NoSuchBucket"):
            ask()


@dataclass
class Answering:
    """A server that answers everything alike, and notes what it was asked."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    port: int = 0

    def store(self, environ: dict[str, str] | None = None) -> ObjectStore:
        return open_store(f"s3://bucket/p?endpoint=http://127.0.0.1:{self.port}", environ or ENVIRONMENT)


@pytest.fixture
def answering() -> Iterator[Answering]:
    answers = Answering()
    soon = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    keys = json.dumps({"AccessKeyId": "ROLE", "SecretAccessKey": "s", "Token": "t", "Expiration": soon}).encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            signed_by = self.headers.get("Authorization", "").partition("Credential=")[2].partition("/")[0]
            answers.asked.append(f"{self.command} {self.path} {signed_by}".strip())
            path = self.path
            role = keys if path.endswith(("/the-role", "/role")) else b"the-role" if "credentials" in path else b"token"
            is_role = "/p/" not in path and "list-type" not in path and "?delete" not in path
            body = role if is_role else answers.body
            self.send_response(200 if is_role else answers.status)
            for name, value in answers.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = answer

        def log_message(self, *_: object) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        answers.port = server.server_port
        yield answers
        server.shutdown()


def test_an_answer_that_breaks_off_is_asked_for_again() -> None:
    head = b'HTTP/1.1 200 OK\r\nETag: "a"\r\nLast-Modified: Sun, 22 Nov 2026 11:00:00 GMT\r\nContent-Length: 9\r\n\r\n'
    bodies = iter([b"half", b"the whole", b"half", b"half"])

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            self.wfile.write(head + next(bodies))

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        store = open_store(f"s3://bucket/p?endpoint=http://127.0.0.1:{server.server_address[1]}", ENVIRONMENT)

        found = store.get("x")
        assert found is not None
        assert found.body == b"the whole"
        with pytest.raises(StoreUnreachable, match="its answer broke off"):
            store.get("x")
        server.shutdown()


@pytest.mark.parametrize("status", [200, 404])
def test_a_page_to_sign_in_to_a_network_is_no_store_and_no_empty_bucket(answering: Answering, status: int) -> None:
    """Read as an empty bucket, it would end the history: the next start would begin a new one."""
    answering.status, answering.body = status, b"<html><body>Please sign in</body></html>"
    store = answering.store()

    for ask in (
        lambda: store.get("x"),
        lambda: store.put("x", b"1", replacing=None),
        lambda: store.put("x", b"1", replacing='"a"'),
        lambda: store.names("e/", limit=9),
        lambda: store.first("e/"),
        lambda: store.delete("x"),
        store.now_s,
    ):
        with pytest.raises(StoreUnreachable):
            ask()


@pytest.mark.parametrize(
    ("status", "code", "error", "said"),
    [
        (403, "AccessDenied", StoreRefused, "refuses: AccessDenied; these credentials need List, Get, Put and Delete"),
        (400, "ExpiredToken", StoreRefused, "refuses: ExpiredToken"),
        (301, "PermanentRedirect", StoreRefused, "is in another region than us-east-1: set AWS_REGION"),
        (501, "NotImplemented", StoreRefused, "has no conditional writes"),
        (503, "SlowDown", StoreUnreachable, "answers with an error: SlowDown"),
        (409, "ConditionalRequestConflict", ObjectChanged, "another writer"),
    ],
)
def test_a_refusal_of_the_store_says_what_to_do(
    answering: Answering, status: int, code: str, error: type[Exception], said: str
) -> None:
    answering.status, answering.body = status, f"<Error><Code>{code}</Code></Error>".encode()
    with pytest.raises(error, match=said):
        answering.store().put("x", b"1", replacing=None)


def test_a_refused_delete_is_an_error(answering: Answering) -> None:
    """S3 answers 200, and in the body what it has not deleted."""
    refused = b"<Error><Key>p/x</Key><Code>AccessDenied</Code><Message>no</Message></Error>"
    answering.body = b"<DeleteResult>" + refused + b"</DeleteResult>"
    with pytest.raises(StoreRefused, match="AccessDenied"):
        answering.store().delete("x")


def test_requests_go_past_the_proxies_of_this_process_to_this_machine(
    answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering.headers = {"ETag": '"a"', "Last-Modified": "Sun, 22 Nov 2026 11:00:00 GMT"}
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    assert answering.store().get("x") is not None
    assert answering.store({**ENVIRONMENT, "HTTP_PROXY": "http://127.0.0.1:1"}).get("x") is not None


def test_the_certificates_of_aws_ca_bundle_are_trusted(tmp_path: Path) -> None:
    make = (
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca -days 2 -subj /CN=ca;"
        "openssl req -newkey rsa:2048 -nodes -keyout key -out request -subj /CN=localhost;"
        "printf subjectAltName=DNS:localhost > names;"
        "openssl x509 -req -in request -CA ca -CAkey ca.key -CAcreateserial -out cert -days 2 -extfile names"
    )
    subprocess.run(["bash", "-ec", make], cwd=tmp_path, check=True, capture_output=True)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("ETag", '"a"')
            self.send_header("Last-Modified", "Sun, 22 Nov 2026 11:00:00 GMT")
            self.send_header("Content-Length", "1")
            self.end_headers()
            self.wfile.write(b"x")

        def log_message(self, *_: object) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        read = f"""
import os
from shared.db.replica.object_store import open_store
print(open_store("s3://b/p?endpoint=https://localhost:{server.server_port}", os.environ).get("x").body)
"""
        environ = {name: value for name, value in os.environ.items() if name != "SSL_CERT_FILE"} | ENVIRONMENT
        without, with_bundle = (
            subprocess.run([sys.executable, "-c", read], env=each, capture_output=True, text=True)
            for each in (environ, {**environ, "AWS_CA_BUNDLE": str(tmp_path / "ca")})
        )
        server.shutdown()
    assert "does not answer" in without.stderr
    assert with_bundle.stdout == "b'x'\n", with_bundle.stderr


@pytest.mark.parametrize(
    ("url", "environ", "address"),
    [
        ("s3://bucket/p", {"AWS_REGION": "eu-central-2"}, "https://bucket.s3.eu-central-2.amazonaws.com/p/x"),
        ("s3://dotted.bucket/p", {}, "https://s3.us-east-1.amazonaws.com/dotted.bucket/p/x"),
        ("s3://bucket/p?region=cn-north-1", {}, "https://s3.cn-north-1.amazonaws.com.cn/bucket/p/x"),
    ],
)
def test_the_address_of_a_bucket_at_amazon(url: str, environ: dict[str, str], address: str) -> None:
    import obstore

    store = open_store(url, {**ENVIRONMENT, **environ})
    signed = obstore.sign(store._open(), "GET", "x", timedelta(seconds=9))  # type: ignore[attr-defined]
    assert signed.partition("?")[0] == address


@pytest.mark.parametrize(
    "url",
    [
        "http://bucket",
        "s3://two words/p",
        "s3://bucket/a//b",
        "s3://bucket/a/../b",
        "s3://bucket/p?endpoint=127.0.0.1:9000",
        "s3://bucket/p?endpoint=http://[::1",
        "s3://bucket/p?endpoint=ftp://127.0.0.1:9000",
    ],
)
def test_another_form_of_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigInvalid):
        open_store(url, ENVIRONMENT)


def test_the_keys_of_a_container_s_role_sign_the_request(answering: Answering, tmp_path: Path) -> None:
    answering.headers = {"ETag": '"a"', "Last-Modified": "Sun, 22 Nov 2026 11:00:00 GMT"}
    token = tmp_path / "token"
    token.write_text("secret")
    environ = {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://127.0.0.1:{answering.port}/role",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token),
    }

    assert answering.store(environ).get("x") is not None

    assert answering.asked == ["GET /role", "GET /bucket/p/x ROLE"]


def test_the_keys_of_a_machine_s_role_sign_the_request(answering: Answering) -> None:
    answering.headers = {"ETag": '"a"', "Last-Modified": "Sun, 22 Nov 2026 11:00:00 GMT"}
    environ = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://127.0.0.1:{answering.port}"}

    assert answering.store(environ).get("x") is not None

    assert answering.asked[-2:] == ["GET /latest/meta-data/iam/security-credentials/the-role", "GET /bucket/p/x ROLE"]


def test_a_role_that_does_not_answer_is_told_apart_from_none() -> None:
    nowhere = "http://127.0.0.1:1"
    with pytest.raises(CredentialsMissing, match="AWS_ACCESS_KEY_ID"):
        open_store("s3://bucket/p", {"AWS_EC2_METADATA_SERVICE_ENDPOINT": nowhere}).get("x")
    with pytest.raises(CredentialsUnreachable, match=nowhere):
        open_store("s3://bucket/p", {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{nowhere}/role",
                                     "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": os.devnull}).get("x")  # fmt: skip


def test_the_environment_comes_before_the_credentials_file(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("[default]\naws_access_key_id=F\naws_secret_access_key=f\n[work]\n"
                    "aws_access_key_id = W\naws_secret_access_key = a%b\naws_session_token = t\n")  # fmt: skip
    no_role = {"AWS_SHARED_CREDENTIALS_FILE": str(file), "AWS_EC2_METADATA_DISABLED": "true"}

    assert obstore_config({**no_role, "AWS_ACCESS_KEY_ID": "E", "AWS_SECRET_ACCESS_KEY": "e"})["access_key_id"] == "E"
    assert obstore_config(no_role)["access_key_id"] == "F"
    assert obstore_config({**no_role, "AWS_PROFILE": "work"}) == {
        "access_key_id": "W",
        "secret_access_key": "a%b",
        "session_token": "t",
    }


def test_without_any_credentials_the_first_request_says_what_to_set() -> None:
    store = open_store("s3://b/p", {"AWS_EC2_METADATA_DISABLED": "true"})
    with pytest.raises(CredentialsMissing, match="AWS_ACCESS_KEY_ID"):
        store.get(CLOCK)
