"""Recognizes the PUT and the GET of one small object, which need nothing of moto but its memory.

moto's dispatcher takes 2.5 ms for a request; its backend needs 0.1 ms of them. A connection, a thread, ``http.server``
and werkzeug take another 0.7 ms. With ``durability = "replicated"`` each acknowledgement waits for such a PUT. A
compaction or a restore of Litestream makes thousands of such GETs.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

_FIRST_LINE = re.compile(r"(PUT|GET) (/(?!/)[!\"$->@-~]*)(?:\?([!\"$-~]*))? HTTP/1\.1")  # no fragment
_HEADER = re.compile(r"([A-Za-z0-9-]+): ?([!-~](?:[ -~]*[!-~])?)")  # no underscore: WSGI takes it for a hyphen
_FOR_HTTP_SERVER = ("HTTP_EXPECT", "HTTP_CONNECTION", "HTTP_TRANSFER_ENCODING")
MOST_BYTES = 1024 * 1024
_QUERIES = {"PUT": ("", "x-id=PutObject"), "GET": ("", "x-id=GetObject")}
_SIGNED = "AWS4-HMAC-SHA256 "
_METADATA = "HTTP_X_AMZ_META_"
_HARMLESS = ("HTTP_X_AMZ_DATE", "HTTP_X_AMZ_CONTENT_SHA256", "HTTP_X_AMZ_USER_AGENT", "HTTP_X_AMZ_SECURITY_TOKEN")
_ASKS_FOR_MORE = (  # a condition, a part, a check of the body, or a body in another form
    *("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH", "HTTP_IF_MODIFIED_SINCE", "HTTP_IF_UNMODIFIED_SINCE", "HTTP_IF_RANGE"),
    *("HTTP_RANGE", "HTTP_CONTENT_MD5", "HTTP_CONTENT_ENCODING", "HTTP_TRANSFER_ENCODING"),
    *("HTTP_CACHE_CONTROL", "HTTP_CONTENT_DISPOSITION", "HTTP_CONTENT_LANGUAGE", "HTTP_EXPIRES", "HTTP_ORIGIN"),
)

Answer = tuple[str, list[tuple[str, str]], list[bytes]]
"""Status, headers and body."""


class PlainPut(NamedTuple):
    """The PUT of one object: its body as the server reads it, and its metadata by the names of headers.

    ``is_whole``: the client sent as many bytes as it announced. One that is killed in the middle did not.
    """

    body: bytes
    metadata: dict[str, str]
    is_whole: bool = True


def read_head(received: bytes) -> tuple[dict[str, Any], int] | None:
    """The WSGI environ of the PUT or GET at the beginning of *received*, and the length of its head in bytes.

    None where ``http.server`` has to read the request: another method, or a head that is incomplete, malformed or
    unusual. Of the environ, only what this module and ``plain_list`` need is there, without the body.
    """
    end = received.find(b"\r\n\r\n")
    if end < 0 or not received.startswith((b"PUT /", b"GET /")):
        return None
    first, *lines = received[:end].decode("latin-1").split("\r\n")
    found = _FIRST_LINE.fullmatch(first)
    if found is None:
        return None
    environ: dict[str, Any] = {
        "REQUEST_METHOD": found[1],
        "PATH_INFO": unquote(found[2]).encode().decode("latin-1"),
        "QUERY_STRING": found[3] or "",
    }
    for line in lines:
        header = _HEADER.fullmatch(line)
        if header is None:
            return None
        name = header[1].upper().replace("-", "_")
        if name not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
            name = f"HTTP_{name}"
        if name in environ:
            return None
        environ[name] = header[2]
    return None if any(name in environ for name in _FOR_HTTP_SERVER) else (environ, end + 4)


def plain_put(environ: dict[str, Any]) -> PlainPut | None:
    """The request as a plain PUT; None where moto has to look at it, and then nothing is read of the body."""
    length = environ.get("CONTENT_LENGTH", "")
    is_plain = (
        _is_plain(environ, "PUT")
        and not str(environ.get("HTTP_X_AMZ_CONTENT_SHA256", "")).startswith("STREAMING")
        and length.isdecimal()
        and int(length) <= MOST_BYTES
    )
    if not is_plain:
        return None
    metadata = {"content-type": environ["CONTENT_TYPE"]} if environ.get("CONTENT_TYPE") else {}
    for name, value in environ.items():
        if name.startswith(_METADATA):
            metadata["x-amz-meta-" + name.removeprefix(_METADATA).replace("_", "-").lower()] = value
        elif name.startswith("HTTP_X_AMZ_") and name not in _HARMLESS:
            return None
    body = environ["wsgi.input"].read(int(length))
    return PlainPut(body, metadata, is_whole=len(body) == int(length))


def is_plain_get(environ: Mapping[str, Any]) -> bool:
    """Whether the request is for one whole object, without conditions."""
    return _is_plain(environ, "GET") and is_plain_read(environ)


def is_plain_read(environ: Mapping[str, Any]) -> bool:
    """Whether the request is signed, without a body, and without a header of S3 that moto would have to look at."""
    names = [name for name in environ if name.startswith("HTTP_X_AMZ_") and name not in _HARMLESS]
    return (
        _is_signed(environ)
        and environ.get("CONTENT_LENGTH", "") in ("", "0")
        and names in ([], ["HTTP_X_AMZ_CHECKSUM_MODE"])
    )


def _is_plain(environ: Mapping[str, Any], method: str) -> bool:
    return (
        environ["REQUEST_METHOD"] == method
        and environ.get("QUERY_STRING", "") in _QUERIES[method]
        and _is_signed(environ)
        and not any(name in environ for name in _ASKS_FOR_MORE)
    )


def _is_signed(environ: Mapping[str, Any]) -> bool:
    return str(environ.get("HTTP_AUTHORIZATION", "")).startswith(_SIGNED)
