"""Reads the head of a request to S3, and names the operation that it asks for, where it is one of those in ``_KNOWN``.

These are the requests of Litestream and of our own programs. All others are for moto.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

MOST_HEAD_BYTES = 8 * 1024
MOST_BYTES = 64 * 1024 * 1024  # of a body, which is in memory as a whole
_FIRST_LINE = re.compile(r"(PUT|GET|HEAD|DELETE|POST) (/(?!/)[!\"$->@-~]*)(?:\?([!\"$-~]*))? HTTP/1\.1")  # no fragment
_HEADER = re.compile(r"([A-Za-z0-9-]+): ?([!-~](?:[ -~]*[!-~])?)")  # no underscore: WSGI takes it for a hyphen
_FOR_HTTP_SERVER = ("HTTP_CONNECTION", "HTTP_TRANSFER_ENCODING")
CONTINUE = "100-continue"  # the client of a large body waits for our consent
_SIGNED_FOR_S3 = re.compile(r"AWS4-HMAC-SHA256 .*/s3/aws4_request\b.*")
_RANGE = re.compile(r"bytes=([0-9]{1,18})-([0-9]{0,18})")
_METADATA = "HTTP_X_AMZ_META_"
_ASKS_FOR_MORE = frozenset(  # a condition, a check of the body, or a body in another form
    f"HTTP_{name}"
    for name in (
        *("IF_MATCH", "IF_NONE_MATCH", "IF_MODIFIED_SINCE", "IF_UNMODIFIED_SINCE", "IF_RANGE", "RANGE", "CONTENT_MD5"),
        *("CONTENT_ENCODING", "TRANSFER_ENCODING", "CACHE_CONTROL", "CONTENT_DISPOSITION", "CONTENT_LANGUAGE"),
        *("EXPIRES", "ORIGIN"),
    )
)
_HARMLESS = frozenset(f"HTTP_X_AMZ_{name}" for name in ("DATE", "CONTENT_SHA256", "USER_AGENT", "SECURITY_TOKEN"))
_CONDITIONS = frozenset(("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH"))
_CHECKED = frozenset(("HTTP_X_AMZ_CHECKSUM_MODE",))
_LIST = frozenset(
    ("list-type", "prefix", "start-after", "continuation-token", "max-keys", "encoding-type", "delimiter")
)

Answer = tuple[str, list[tuple[str, str]], list[bytes]]
"""Status, headers and body."""


class Operation(NamedTuple):
    """What a request may say so that it is this operation.

    Attributes:
        parameters: of the query, without ``x-id``, which names the operation once more.
        headers: those that ask for more, and that this operation knows.
        may_add: whether some of the parameters may be missing.
    """

    name: str
    method: str
    has_key: bool
    parameters: frozenset[str] = frozenset()
    headers: frozenset[str] = frozenset()
    may_add: bool = False


_KNOWN = (
    Operation("get", "GET", True, headers=_CHECKED | {"HTTP_RANGE"}),
    Operation("head", "HEAD", True, headers=_CHECKED),
    Operation("put", "PUT", True, headers=_CONDITIONS),
    Operation("delete", "DELETE", True),
    Operation("delete_many", "POST", False, frozenset(("delete",)), frozenset(("HTTP_CONTENT_MD5",))),
    Operation("begin_upload", "POST", True, frozenset(("uploads",))),
    Operation("put_part", "PUT", True, frozenset(("partNumber", "uploadId"))),
    Operation("complete_upload", "POST", True, frozenset(("uploadId",)), _CONDITIONS),
    Operation("abort_upload", "DELETE", True, frozenset(("uploadId",))),
    Operation("list", "GET", False, _LIST, _CHECKED, may_add=True),
)


class Asked(NamedTuple):
    """A request that is one of the operations."""

    operation: str
    bucket: str
    key: str
    query: Mapping[str, str]
    environ: Mapping[str, Any]
    length: int

    @property
    def metadata(self) -> dict[str, str]:
        """The content type and the user's metadata, by the names of headers."""
        found = {"content-type": self.environ.get("CONTENT_TYPE") or "binary/octet-stream"}
        for name, value in self.environ.items():
            if name.startswith(_METADATA):
                found["x-amz-meta-" + name.removeprefix(_METADATA).replace("_", "-").lower()] = value
        return found

    @property
    def range(self) -> tuple[int, int | None] | None:
        """The first byte that is asked for and the last, None for the end; None: all bytes."""
        found = _RANGE.fullmatch(self.environ.get("HTTP_RANGE", ""))
        return None if found is None else (int(found[1]), int(found[2]) if found[2] else None)


def read_head(received: bytes) -> tuple[dict[str, Any], int] | None:
    """The WSGI environ of the request at the beginning of *received*, and the length of its head in bytes.

    None where ``http.server`` has to read the request: another method, or a head that is malformed or unusual. Of the
    environ, only what this module needs is there, without the body.
    """
    end = received.find(b"\r\n\r\n")
    first, *lines = received[: max(end, 0)].decode("latin-1").split("\r\n")
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
    is_plain = environ.get("HTTP_EXPECT", CONTINUE) == CONTINUE
    return (environ, end + 4) if is_plain and not any(name in environ for name in _FOR_HTTP_SERVER) else None


def read_request(environ: Mapping[str, Any]) -> Asked | None:
    """The operation that is asked for; None where moto has to look at the request."""
    try:
        text = environ.get("QUERY_STRING", "")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict") if text else []
        bucket, _, key = environ.get("PATH_INFO", "/").lstrip("/").encode("latin-1").decode().partition("/")
    except ValueError:  # among them UnicodeDecodeError
        return None
    query = dict(pairs)
    query.pop("x-id", None)
    length = environ.get("CONTENT_LENGTH", "0")
    operation = _operation(environ["REQUEST_METHOD"], bool(key), query.keys())
    is_known = (
        operation is not None
        and bucket
        and len(dict(pairs)) == len(pairs)
        and (length.isascii() and length.isdecimal() and len(length) < 12 and int(length) <= MOST_BYTES)
        and (operation.method in ("PUT", "POST") or length == "0")
        and ("CONTENT_LENGTH" in environ or operation.name != "put")
        and not environ.get("HTTP_X_AMZ_CONTENT_SHA256", "").startswith("STREAMING")
        and _SIGNED_FOR_S3.fullmatch(environ.get("HTTP_AUTHORIZATION", ""))
        and all(_is_known_header(name, operation) for name in environ)
        and ("HTTP_RANGE" not in environ or _RANGE.fullmatch(environ["HTTP_RANGE"]))
    )
    if not is_known or operation is None:
        return None
    return Asked(operation.name, bucket, key, query, environ, int(length))


def _operation(method: str, has_key: bool, parameters: Any) -> Operation | None:
    for each in _KNOWN:
        if (each.method, each.has_key) == (method, has_key) and (
            (each.may_add and "list-type" in parameters and parameters <= each.parameters)
            or parameters == each.parameters
        ):
            return each
    return None


def _is_known_header(name: str, operation: Operation) -> bool:
    if name in operation.headers or name in _HARMLESS:
        return True
    if name.startswith(_METADATA):
        return operation.name in ("put", "begin_upload")
    if operation.name == "delete_many" and "CHECKSUM" in name:
        return True  # of a body on this machine, which nobody damages
    return name not in _ASKS_FOR_MORE and not name.startswith("HTTP_X_AMZ_")
