"""The few requests to a bucket: signed as AWS documents it, and conditional."""

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from shared.core.errors import ConfigInvalid
from shared.replica import credentials
from shared.replica.credentials import Credentials, CredentialsMissing
from shared.replica.object_store import Changed, S3Store, Store, StoreRefused, StoreUnreachable, open_store, sign
from tests.emulator.storage.test_s3_server import ENVIRONMENT, s3_server


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with s3_server(tmp_path_factory.mktemp("bucket") / "s3") as port:
        yield port


@pytest.fixture(params=["file", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "file":
        return open_store(f"file://{tmp_path}/a folder/replica", {})
    endpoint = f"http://127.0.0.1:{request.getfixturevalue('port')}"
    return open_store(f"s3://postroom-replica/{tmp_path.name}/a b?endpoint={endpoint}", ENVIRONMENT)


def test_a_write_replaces_what_its_writer_has_seen_and_nothing_else(store: Store) -> None:
    assert store.get("lease.json") is None
    first = store.put("lease.json", b"1", replacing=None)
    with pytest.raises(Changed):
        store.put("lease.json", b"2", replacing=None)
    second = store.put("lease.json", b"2", replacing=first)
    with pytest.raises(Changed):
        store.put("lease.json", b"3", replacing=first)

    found = store.get("lease.json")
    assert found is not None
    assert (found.body, found.tag) == (b"2", second)
    assert 0 <= found.age_s < 30
    with pytest.raises(Changed):
        store.put("nothing.json", b"3", replacing=second)


def test_the_first_name_behind_another(store: Store) -> None:
    for number in (1, 2, 9):
        store.put(f"e/{store.newest}{number}-{number}.ltx", b"x", replacing=None)

    assert store.first("e/" + store.levels) == f"e/{store.newest}1-1.ltx"
    assert store.first("e/" + store.newest, after=f"e/{store.newest}2-2.ltx") == f"e/{store.newest}9-9.ltx"
    assert store.first("e/" + store.newest, after=f"e/{store.newest}9-9.ltx") is None
    assert store.first("f/") is None


def test_half_a_file_of_litestream_s_in_a_folder_is_none_yet_and_can_be_deleted(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}", {})
    half = tmp_path / "e" / store.newest / "1-1.ltx.tmp"
    half.parent.mkdir(parents=True)
    half.touch()

    assert store.first("e/" + store.levels) is None
    assert store.names("e/", limit=9) == [f"e/{store.newest}1-1.ltx.tmp"]


def test_names_in_order_and_what_is_deleted_is_gone(store: Store) -> None:
    for name in ("e/9", "e/0000/b", "e/0000/a&<b>", "f/1"):
        store.put(name, b"x", replacing=None)

    assert store.names("e/", limit=2) == ["e/0000/a&<b>", "e/0000/b"]
    assert store.names("e/", "e/0000/b", limit=1000) == ["e/9"]
    for name in (*store.names("e/", limit=1000), "e/never"):
        store.delete(name)
    assert store.names("", limit=1000) == ["f/1"]


def test_what_can_not_be_deleted_is_told(port: int, tmp_path: Path) -> None:
    (tmp_path / "e" / "x").mkdir(parents=True)
    with pytest.raises(StoreRefused, match="can't be deleted"):
        open_store(f"file://{tmp_path}", {}).delete("e/x")
    with pytest.raises(StoreRefused, match="NoSuchBucket"):
        open_store(f"s3://other/p?endpoint=http://127.0.0.1:{port}", ENVIRONMENT).delete("x")


def test_the_signature_is_that_of_the_documentation() -> None:
    """https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html, "GET Bucket Lifecycle"."""
    keys = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    url = "https://examplebucket.s3.amazonaws.com/"

    headers = sign("GET", url, "lifecycle=", b"", keys, "us-east-1", "20130524T000000Z")

    assert headers["Authorization"].endswith(
        "Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
    )


def test_a_bucket_that_is_away_or_not_there_or_of_no_use_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(StoreUnreachable, match=f"s3://b/p at http://127.0.0.1:{port} does not answer"):
        open_store(f"s3://b/p?endpoint=http://127.0.0.1:{port}", ENVIRONMENT).get("x")


def test_no_such_bucket(port: int) -> None:
    store = open_store(f"s3://other/p?endpoint=http://127.0.0.1:{port}", ENVIRONMENT)
    for ask in (lambda: store.get("x"), lambda: store.put("x", b"", replacing=None), lambda: store.first("x")):
        with pytest.raises(StoreRefused, match="NoSuchBucket"):
            ask()


def test_addresses_at_amazon() -> None:
    def base(url: str, **environ: str) -> str:
        return open_store(url, environ)._base  # type: ignore[attr-defined]

    assert base("s3://bucket/p", AWS_REGION="eu-central-2") == "https://bucket.s3.eu-central-2.amazonaws.com"
    assert base("s3://dotted.bucket/p") == "https://s3.us-east-1.amazonaws.com/dotted.bucket"
    assert base("s3://bucket/p?region=cn-north-1") == "https://bucket.s3.cn-north-1.amazonaws.com.cn"
    with pytest.raises(ConfigInvalid):
        open_store("http://bucket", {})


@pytest.fixture
def role() -> Iterator[tuple[str, list[str]]]:
    """What ECS and EC2 offer a container and a machine; its address, and what was asked."""
    asked: list[str] = []
    ends = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    keys = json.dumps({"AccessKeyId": "ROLE", "SecretAccessKey": "s", "Token": "t", "Expiration": ends})

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            asked.append(f"{self.command} {self.path} {self.headers.get('Authorization', '')}".strip())
            is_list = self.path.endswith("/security-credentials/")
            body = {"PUT": "token"}.get(self.command, "the-role" if is_list else keys).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = answer

        def log_message(self, *_: object) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def test_a_container_has_its_role_s_keys_until_they_end(role: tuple[str, list[str]]) -> None:
    address, asked = role
    environ = {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{address}/role",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN": "secret",
    }

    found = credentials.find(environ)

    assert (found.key, found.secret, found.token) == ("ROLE", "s", "t")
    assert asked == ["GET /role secret"]
    assert found.ends_at_s is not None
    assert not found.is_over(found.ends_at_s - 400)
    assert found.is_over(found.ends_at_s - 200)
    assert "s" not in repr(found).replace("Credentials", "")


def test_a_machine_has_its_role_s_keys(role: tuple[str, list[str]]) -> None:
    address, asked = role
    assert credentials.find({"AWS_EC2_METADATA_SERVICE_ENDPOINT": address}).key == "ROLE"
    assert asked[-1] == "GET /latest/meta-data/iam/security-credentials/the-role"


def test_the_environment_comes_before_the_file_and_without_any_it_says_so(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("[default]\naws_access_key_id=F\naws_secret_access_key=f\n[work]\n"
                    "aws_access_key_id = W\naws_secret_access_key = a%b\naws_session_token = t\n")  # fmt: skip
    nowhere = {"AWS_SHARED_CREDENTIALS_FILE": str(file), "AWS_EC2_METADATA_DISABLED": "true"}

    assert credentials.find({**nowhere, "AWS_ACCESS_KEY_ID": "E", "AWS_SECRET_ACCESS_KEY": "e"}).key == "E"
    assert credentials.find(nowhere).key == "F"
    assert credentials.find({**nowhere, "AWS_PROFILE": "work"}) == Credentials("W", "a%b", "t")
    with pytest.raises(CredentialsMissing, match="AWS_ACCESS_KEY_ID"):
        credentials.find({**nowhere, "AWS_PROFILE": "nobody"})
    assert isinstance(open_store("s3://b/p", nowhere), S3Store), "looked for when they are needed"
