"""A request is read as werkzeug reads it, and is ours where it is one of the known operations, and nothing more."""

import io
from types import SimpleNamespace
from typing import Any

import pytest
from werkzeug.serving import WSGIRequestHandler

from emulator.storage.s3_requests import MOST_BYTES, Asked, read_head, read_request

_PUT = {  # as Litestream 0.5 sends it
    "REQUEST_METHOD": "PUT",
    "PATH_INFO": "/bucket/db/0000/1-1.ltx",
    "QUERY_STRING": "x-id=PutObject",
    "CONTENT_LENGTH": "4",
    "CONTENT_TYPE": "application/octet-stream",
    "HTTP_AUTHORIZATION": "AWS4-HMAC-SHA256 Credential=emulator/20261121/us-east-1/s3/aws4_request, Signature=0",
    "HTTP_X_AMZ_CONTENT_SHA256": "090f1c61",
    "HTTP_X_AMZ_DATE": "20261121T071354Z",
    "HTTP_X_AMZ_META_LITESTREAM_TIMESTAMP": "2026-11-21T07:13:54.537Z",
}
_SIGNED = {name: _PUT[name] for name in ("HTTP_AUTHORIZATION", "HTTP_X_AMZ_CONTENT_SHA256", "HTTP_X_AMZ_DATE")}
_GET = {**_SIGNED, "REQUEST_METHOD": "GET", "PATH_INFO": "/bucket/key"}


def operation(environ: dict[str, Any]) -> str | None:
    asked = read_request(environ)
    return asked and asked.operation


def test_the_upload_of_litestream_is_read() -> None:
    metadata = {
        "content-type": "application/octet-stream",
        "x-amz-meta-litestream-timestamp": "2026-11-21T07:13:54.537Z",
    }
    asked = read_request(_PUT)
    assert asked == Asked("put", "bucket", "db/0000/1-1.ltx", {}, _PUT, 4)
    assert asked.metadata == metadata


KNOWN = {
    "get": {},
    "get with its checksum": {"HTTP_X_AMZ_CHECKSUM_MODE": "ENABLED"},
    "get of some bytes": {"HTTP_RANGE": "bytes=0-"},
    "head": {"REQUEST_METHOD": "HEAD"},
    "put": {"REQUEST_METHOD": "PUT", "CONTENT_LENGTH": "0"},
    "put if there is none": {"REQUEST_METHOD": "PUT", "CONTENT_LENGTH": "4", "HTTP_IF_NONE_MATCH": "*"},
    "put in place of what was read": {"REQUEST_METHOD": "PUT", "CONTENT_LENGTH": "4", "HTTP_IF_MATCH": '"x"'},
    "delete": {"REQUEST_METHOD": "DELETE", "QUERY_STRING": "x-id=DeleteObject"},
    "delete_many": {"REQUEST_METHOD": "POST", "PATH_INFO": "/bucket", "QUERY_STRING": "delete", "CONTENT_LENGTH": "9"},
    "begin_upload": {"REQUEST_METHOD": "POST", "QUERY_STRING": "uploads=&x-id=CreateMultipartUpload"},
    "put_part": {"REQUEST_METHOD": "PUT", "QUERY_STRING": "partNumber=1&uploadId=a", "CONTENT_LENGTH": "4"},
    "complete_upload": {"REQUEST_METHOD": "POST", "QUERY_STRING": "uploadId=a", "CONTENT_LENGTH": "9"},
    "abort_upload": {"REQUEST_METHOD": "DELETE", "QUERY_STRING": "uploadId=a"},
    "list": {"PATH_INFO": "/bucket", "QUERY_STRING": "list-type=2&prefix=a"},
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_litestream_and_our_programs_ask_is_ours(name: str) -> None:
    environ = {**_SIGNED, "REQUEST_METHOD": "GET", "PATH_INFO": "/bucket/key", **KNOWN[name]}
    assert operation(environ) == name.split()[0]


@pytest.mark.parametrize(
    "changed",
    [
        {"REQUEST_METHOD": "POST"},
        {"PATH_INFO": "/bucket"},
        {"QUERY_STRING": "partNumber=1&uploadId=x"},
        {"QUERY_STRING": "tagging"},
        {"HTTP_AUTHORIZATION": ""},
        {"HTTP_AUTHORIZATION": _PUT["HTTP_AUTHORIZATION"].replace("s3", "sqs")},
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
def test_an_upload_that_asks_for_more_is_motos(changed: dict[str, str]) -> None:
    assert operation({**_PUT, **changed}) is None


def test_an_upload_without_a_length_is_motos() -> None:
    assert operation({name: value for name, value in _PUT.items() if name != "CONTENT_LENGTH"}) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"QUERY_STRING": "versionId=1"},
        {"QUERY_STRING": "response-content-type=text/html"},
        {"QUERY_STRING": "x-id=GetObject&x-id=GetObject"},
        {"HTTP_AUTHORIZATION": ""},
        {"HTTP_RANGE": "bytes=-5"},
        {"HTTP_RANGE": "bytes=0-1,3-4"},
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
def test_a_download_that_asks_for_more_is_motos(changed: dict[str, str]) -> None:
    assert operation({**_GET, **changed}) is None


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
        _HEAD.replace(b"PUT", b"PATCH"),
        _HEAD.replace(b"HTTP/1.1", b"HTTP/1.0"),
        _HEAD.replace(b"PUT /", b"PUT //"),
        _HEAD.replace(b"PUT /", b"PUT http://127.0.0.1/"),
        _HEAD.replace(b"1-1.ltx", b"a b"),
        _HEAD.replace(b"1-1.ltx", b"a#b"),
        _HEAD.replace(b"1-1.ltx", b"\xfc"),
        _HEAD + b"Content-Length: 4\r\n",
        _HEAD + b"Expect: 417\r\n",
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
