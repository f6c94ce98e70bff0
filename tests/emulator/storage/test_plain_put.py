"""A PUT that goes past moto's dispatcher stores what moto would; every other request goes through it."""

import http.client
import io
import socket
from pathlib import Path
from typing import Any

import pytest

from emulator.storage.plain_put import MOST_BYTES, PlainPut, plain_put
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
def test_an_upload_that_breaks_off_changes_nothing(tmp_path: Path) -> None:
    """As when Litestream is killed in the middle: half a file of the replica would be in its way for ever."""
    with s3_server(tmp_path) as port:
        _ask(port, "PUT", "/old", b"whole", SIGNED)
        answers = [_break_off(port, path) for path in ("/old", "/new")]
        found = [fetch(f"http://127.0.0.1:{port}/postroom-replica{path}", headers=SIGNED) for path in ("/old", "/new")]

    assert [answer.split()[1] for answer in answers] == [b"400", b"400"]
    assert found[0] == (200, b"whole")
    assert found[1][0] == 404


def _break_off(port: int, path: str) -> bytes:
    """Send 40 bytes of 100; the answer."""
    lines = {"Host": f"127.0.0.1:{port}", "Content-Length": "100", **SIGNED}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(f"PUT /postroom-replica{path} HTTP/1.1\r\n{head}\r\n".encode() + b"x" * 40)
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
