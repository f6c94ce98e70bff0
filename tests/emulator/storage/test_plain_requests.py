"""A PUT or GET that goes past moto's dispatcher does what moto would; every other request goes through it."""

import http.client
import io
import json
import re
import socket
import time
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from werkzeug.serving import WSGIRequestHandler

from emulator.storage.plain_requests import MOST_BYTES, PlainPut, is_plain_get, plain_put, read_head
from emulator.storage.s3_connections import SILENT_S
from tests.emulator.harness import fetch
from tests.emulator.storage.test_s3_server import SIGNED, s3_server

_LITESTREAM = {  # as Litestream 0.5 sends it
    "REQUEST_METHOD": "PUT",
    "QUERY_STRING": "x-id=PutObject",
    "CONTENT_LENGTH": "4",
    "CONTENT_TYPE": "application/octet-stream",
    "HTTP_AUTHORIZATION": "AWS4-HMAC-SHA256 Credential=emulator/20261121/us-east-1/s3/aws4_request, Signature=0",
    "HTTP_X_AMZ_CONTENT_SHA256": "090f1c61",
    "HTTP_X_AMZ_DATE": "20261121T071354Z",
    "HTTP_X_AMZ_META_LITESTREAM_TIMESTAMP": "2026-11-21T07:13:54.537Z",
}


def of(**changed: str) -> PlainPut | None:
    environ: dict[str, Any] = {**_LITESTREAM, **changed, "wsgi.input": io.BytesIO(b"bodyNEXT")}
    return plain_put(environ)


def test_the_upload_of_litestream_is_plain() -> None:
    metadata = {
        "content-type": "application/octet-stream",
        "x-amz-meta-litestream-timestamp": "2026-11-21T07:13:54.537Z",
    }
    assert of() == PlainPut(b"body", metadata)


@pytest.mark.parametrize(
    "changed",
    [
        {"REQUEST_METHOD": "POST"},
        {"QUERY_STRING": "partNumber=1&uploadId=x"},
        {"QUERY_STRING": "tagging"},
        {"HTTP_AUTHORIZATION": ""},
        {"HTTP_IF_NONE_MATCH": "*"},
        {"HTTP_IF_MATCH": '"x"'},
        {"HTTP_CONTENT_MD5": "x"},
        {"HTTP_X_AMZ_CONTENT_SHA256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER"},
        {"HTTP_X_AMZ_COPY_SOURCE": "/bucket/key"},
        {"HTTP_X_AMZ_TAGGING": "a=b"},
        {"HTTP_TRANSFER_ENCODING": "chunked"},
        {"CONTENT_LENGTH": ""},
        {"CONTENT_LENGTH": str(MOST_BYTES + 1)},
    ],
    ids=lambda changed: " ".join(f"{name}={value}" for name, value in changed.items()),
)
def test_what_asks_for_more_goes_through_moto(changed: dict[str, str]) -> None:
    assert of(**changed) is None


_READ = {
    **{name: _LITESTREAM[name] for name in ("HTTP_AUTHORIZATION", "HTTP_X_AMZ_CONTENT_SHA256", "HTTP_X_AMZ_DATE")},
    "REQUEST_METHOD": "GET",
    "QUERY_STRING": "x-id=GetObject",
    "HTTP_X_AMZ_CHECKSUM_MODE": "ENABLED",
}


def test_the_download_of_litestream_is_plain() -> None:
    assert is_plain_get(_READ)
    assert is_plain_get({**_READ, "QUERY_STRING": "", "CONTENT_LENGTH": "0"})


@pytest.mark.parametrize(
    "changed",
    [
        {"REQUEST_METHOD": "HEAD"},
        {"QUERY_STRING": "versionId=1"},
        {"QUERY_STRING": "response-content-type=text/html"},
        {"HTTP_AUTHORIZATION": ""},
        {"HTTP_RANGE": "bytes=0-1"},
        {"HTTP_IF_MATCH": '"x"'},
        {"HTTP_IF_NONE_MATCH": '"x"'},
        {"HTTP_IF_MODIFIED_SINCE": "Sat, 21 Nov 2026 07:13:54 GMT"},
        {"HTTP_IF_UNMODIFIED_SINCE": "Sat, 21 Nov 2026 07:13:54 GMT"},
        {"HTTP_ORIGIN": "http://127.0.0.1"},
        {"HTTP_X_AMZ_REQUEST_PAYER": "requester"},
        {"CONTENT_LENGTH": "4"},
    ],
    ids=str,
)
def test_a_download_that_asks_for_more_goes_through_moto(changed: dict[str, str]) -> None:
    assert not is_plain_get({**_READ, **changed})


_HEAD = (
    b"PUT /bucket/db/0000/1-1.ltx?x-id=PutObject HTTP/1.1\r\nHost: 127.0.0.1:9100\r\nContent-Length: 4\r\n"
    b"Content-Type: application/octet-stream\r\nX-Amz-Date: 20261121T071354Z\r\n"
)


@pytest.mark.parametrize(
    "head",
    [
        _HEAD,
        _HEAD.replace(b"?x-id=PutObject", b""),
        _HEAD.replace(b"PUT", b"GET"),
        _HEAD.replace(b"1-1.ltx", b"a%20b%2Fc%FF%C3%BC"),
        _HEAD.replace(b"?x-id=PutObject", b"?a=%20&b=?/"),
        _HEAD + b"X-Amz-Meta-A:b; c=d:e\r\n",
    ],
)
def test_a_head_is_read_as_werkzeug_reads_it(head: bytes) -> None:
    found = read_head(head + b"\r\nbodyPUT /")
    assert found is not None
    environ, length = found
    assert length == len(head) + 2
    assert environ == {name: _werkzeug(head + b"\r\n")[name] for name in environ}
    assert len(environ) == 3 + head.count(b"\r\n") - 1


def _werkzeug(received: bytes) -> dict[str, Any]:
    """The environ that werkzeug makes."""
    handler = WSGIRequestHandler.__new__(WSGIRequestHandler)
    handler.rfile, handler.client_address, handler.connection = io.BytesIO(received), ("127.0.0.1", 1), None
    handler.server = SimpleNamespace(
        ssl_context=None, multithread=True, multiprocess=False, server_address=("127.0.0.1", 1), _server_version=""
    )
    handler.raw_requestline = handler.rfile.readline()
    assert handler.parse_request()
    return handler.make_environ()


@pytest.mark.parametrize(
    "head",
    [
        b"",
        _HEAD[:-2],
        _HEAD.replace(b"PUT", b"HEAD"),
        _HEAD.replace(b"PUT", b"POST"),
        _HEAD.replace(b"HTTP/1.1", b"HTTP/1.0"),
        _HEAD.replace(b"PUT /", b"PUT //"),
        _HEAD.replace(b"PUT /", b"PUT http://127.0.0.1/"),
        _HEAD.replace(b"1-1.ltx", b"a b"),
        _HEAD.replace(b"1-1.ltx", b"a#b"),
        _HEAD.replace(b"1-1.ltx", b"\xfc"),
        _HEAD + b"Content-Length: 4\r\n",
        _HEAD + b"Expect: 100-continue\r\n",
        _HEAD + b"Connection: close\r\n",
        _HEAD + b"Transfer-Encoding: chunked\r\n",
        _HEAD + b"X-Amz-Meta-a_b: c\r\n",
        _HEAD + b"X-Amz-Meta-A: b\r\n folded\r\n",
        _HEAD + b"X-Amz-Meta-A: b\nX-Amz-Meta-B: c\r\n",
        _HEAD + b"X-Amz-Meta-A : b\r\n",
        _HEAD + b"X-Amz-Meta-A:  b\r\n",
        _HEAD + b"X-Amz-Meta-A: \xfc\r\n",
        _HEAD + b"X-Amz-Meta-A\r\n",
    ],
)
def test_an_unusual_head_is_left_to_http_server(head: bytes) -> None:
    assert read_head(head + b"\r\n" if head else b"") is None


@pytest.mark.e2e
def test_a_plain_put_stores_what_moto_would(tmp_path: Path) -> None:
    """Also for a reader of the object's head, which a restore to an instant is."""
    stamped = SIGNED | {"Content-Type": "text/plain", "x-amz-meta-litestream-timestamp": "2026-11-21T13:00:00Z"}
    through_moto = stamped | {"x-amz-storage-class": "STANDARD"}
    with s3_server(tmp_path) as port:
        told = [_ask(port, "PUT", path, b"body", headers) for path, headers in
                (("/plain", stamped), ("/moto", through_moto))]  # fmt: skip
        before = [_ask(port, "HEAD", path, None, SIGNED) for path in ("/plain", "/moto")]
    with s3_server(tmp_path) as port:
        after = [_ask(port, "HEAD", path, None, SIGNED) for path in ("/plain", "/moto")]

    assert told[0]["etag"] == told[1]["etag"] == '"841a2d689ad86bd1611447453c22c6fc"'
    assert before[0]["x-amz-meta-litestream-timestamp"] == "2026-11-21T13:00:00Z"
    assert before[0] == before[1]
    assert after[0] == after[1]


@pytest.mark.e2e
@pytest.mark.parametrize("size", [0, 4, MOST_BYTES, MOST_BYTES + 1])
def test_a_plain_get_answers_what_moto_would(tmp_path: Path, size: int) -> None:
    stamped = SIGNED | {"Content-Type": "text/plain", "x-amz-meta-litestream-timestamp": "2026-11-21T13:00:00Z"}
    with s3_server(tmp_path) as port:
        etag = _ask(port, "PUT", "/key", b"x" * size, stamped)["etag"]
        _ask(port, "PUT", "/unstamped", b"x" * size, SIGNED)
        for path in ("/key", "/unstamped"):
            plain, through_moto = (_ask(port, "GET", path, None, SIGNED | more) for more in ({}, {"If-Match": etag}))
            for of_every_answer in ("connection", "access-control-allow-origin"):  # and no page may ask
                assert (of_every_answer in plain) == (size > MOST_BYTES)
                del through_moto[of_every_answer]
                plain.pop(of_every_answer, None)
            assert plain == through_moto
        assert plain["content-length"] == str(size)


@pytest.mark.e2e
def test_moto_sees_the_download_of_an_object_that_it_stored(tmp_path: Path) -> None:
    """It may compute that one's ETag at this moment."""
    with s3_server(tmp_path) as port:
        _ask(port, "PUT", "/key", b"one", SIGNED | {"If-None-Match": "*"})
        assert _ask(port, "GET", "/key", None, SIGNED)["connection"] == "close"
        _ask(port, "PUT", "/key", b"two", SIGNED)
        assert "connection" not in _ask(port, "GET", "/key", None, SIGNED)
    with s3_server(tmp_path) as port:
        assert "connection" not in _ask(port, "GET", "/key", None, SIGNED)


@pytest.mark.e2e
def test_moto_sees_downloads_from_a_bucket_with_a_policy(tmp_path: Path) -> None:
    resource = "arn:aws:s3:::postroom-replica/*"
    statement = {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": resource}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]}).encode()
    with s3_server(tmp_path) as port:
        url = f"http://127.0.0.1:{port}/postroom-replica"
        _ask(port, "PUT", "/key", b"one", SIGNED)
        assert fetch(f"{url}?policy", method="PUT", body=policy, headers=SIGNED)[0] < 300
        assert fetch(f"{url}/key", headers=SIGNED)[0] == 403


@pytest.mark.e2e
def test_a_line_break_in_metadata_is_no_header(tmp_path: Path) -> None:
    """As an upload by a form can have."""
    parts = {"key": "key", "x-amz-meta-a": "v\r\nX-Injected: yes", 'file"; filename="f': "body"}
    head = '--X\r\nContent-Disposition: form-data; name="'
    form = "".join(f'{head}{name}"\r\n\r\n{text}\r\n' for name, text in parts.items())
    with s3_server(tmp_path) as port:
        url = f"http://127.0.0.1:{port}/postroom-replica"
        headers = {"Content-Type": "multipart/form-data; boundary=X"}
        assert fetch(url, method="POST", body=f"{form}--X--\r\n".encode(), headers=headers)[0] == 204
        assert fetch(f"{url}/key", headers=SIGNED)[0] == 500  # from werkzeug, which sends no such header


@pytest.mark.e2e
def test_reads_share_a_connection_with_writes(tmp_path: Path) -> None:
    with s3_server(tmp_path) as port, closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as client:
        client.connect()
        connection = client.sock

        def ask(method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
            client.request(method, f"/postroom-replica{path}", body=body, headers=SIGNED)
            answer = client.getresponse()
            return answer.status, answer.read()

        assert ask("PUT", "/a", b"one") == (200, b"")
        assert ask("GET", "/a") == (200, b"one")
        assert re.findall(rb"<Key>(.*?)</Key>", ask("GET", "?list-type=2")[1]) == [b"a"]
        assert ask("PUT", "/a", b"two") == (200, b"")
        assert ask("GET", "/a?x-id=GetObject") == (200, b"two")
        assert client.sock is connection
        assert ask("GET", "/b")[0] == 404
        assert ask("GET", "/a") == (200, b"two")


@pytest.mark.e2e
def test_an_upload_that_breaks_off_changes_nothing(tmp_path: Path) -> None:
    """As when Litestream is killed in the middle: half a file of the replica would be in its way for ever."""
    with s3_server(tmp_path) as port:
        _ask(port, "PUT", "/old", b"whole", SIGNED)
        answers = [_break_off(port, path) for path in ("/old", "/new")]
        found = [fetch(f"http://127.0.0.1:{port}/postroom-replica{path}", headers=SIGNED) for path in ("/old", "/new")]

    assert [answer.split()[1] for answer in answers] == [b"400", b"400"]
    assert found[0] == (200, b"whole")
    assert found[1][0] == 404


@pytest.mark.e2e
def test_plain_puts_over_one_connection_are_each_on_disk_when_they_are_answered(tmp_path: Path) -> None:
    """A last one that breaks off is not; and the server's end does not wait for the client's."""
    with ExitStack() as stack:
        with s3_server(tmp_path) as port:
            client = stack.enter_context(closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)))
            client.connect()
            connection = client.sock
            for number in range(5):
                client.request("PUT", f"/postroom-replica/{number}", body=b"x" * number * 4000, headers=SIGNED)
                answer = client.getresponse()
                assert (answer.status, answer.getheader("Connection"), answer.read()) == (200, None, b"")
                assert (tmp_path / "postroom-replica" / f"{number}.object").read_bytes().endswith(b"x" * number * 4000)
            assert client.sock is connection
            broken = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            whole, half = _put(port, "/whole", 4) + b"body", _put(port, "/half", 100) + b"x" * 40
            broken.sendall(whole + half)
            broken.shutdown(socket.SHUT_WR)
            statuses = re.findall(rb"HTTP/1.1 (\d+)", b"".join(iter(lambda: broken.recv(4096), b"")))
            stop_at_s = time.monotonic()
        assert time.monotonic() - stop_at_s < SILENT_S / 2

    assert statuses == [b"200", b"400"]
    kept = sorted(path.name for path in (tmp_path / "postroom-replica").iterdir())
    assert kept == [*(f"{number}.object" for number in range(5)), "whole.object"]


def _put(port: int, path: str, length: int) -> bytes:
    """The head of a PUT."""
    lines = {"Host": f"127.0.0.1:{port}", "Content-Length": str(length), **SIGNED}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"PUT /postroom-replica{path} HTTP/1.1\r\n{head}\r\n".encode()


def _break_off(port: int, path: str) -> bytes:
    """Send 40 bytes of 100; the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(_put(port, path, 100) + b"x" * 40)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(4096), b""))


def _ask(port: int, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> dict[str, str]:
    """The headers of the answer, without those of the instant."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, f"/postroom-replica{path}", body=body, headers=headers)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200
        varying = ("date", "last-modified", "x-amzn-requestid")
        return {name.lower(): value for name, value in answer.getheaders() if name.lower() not in varying}
    finally:
        connection.close()
