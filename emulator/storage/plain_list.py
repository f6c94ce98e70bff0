"""Recognizes a plain listing of a bucket (ListObjectsV2), and answers it from moto's memory.

moto takes 140 ms for a page of a thousand objects, and meanwhile holds the interpreter: no PUT is answered. Litestream
lists all that it has sent of the last hour before each of its compactions.
"""

import base64
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote
from xml.sax.saxutils import escape

from emulator.storage.plain_requests import is_plain_read

MOST_KEYS = 1000
_OPTIONS = frozenset({"list-type", "prefix", "start-after", "continuation-token", "max-keys", "encoding-type"})
_OURS = "after-"  # so begins each of our tokens; moto's are hexadecimal


class PlainList(NamedTuple):
    """A listing of the keys that begin with *prefix* and come behind *after*.

    Attributes:
        is_continued: *after* is from a page before.
        is_url: the answer has its keys URL-encoded.
    """

    prefix: str
    after: str
    most: int
    is_continued: bool
    is_url: bool


def plain_list(environ: Mapping[str, Any]) -> PlainList | None:
    """The request as a plain listing; None where moto has to look at it."""
    try:
        pairs = parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True, strict_parsing=True, errors="strict")
    except ValueError:  # among them UnicodeDecodeError
        return None
    options = dict(pairs)
    most = options.get("max-keys", str(MOST_KEYS))
    is_plain = (
        environ["REQUEST_METHOD"] == "GET"
        and is_plain_read(environ)
        and len(options) == len(pairs)
        and options.keys() <= _OPTIONS
        and options.get("list-type") == "2"
        and options.get("encoding-type", "url") == "url"
        and most.isascii()
        and most.isdecimal()
        and len(most) <= len(str(MOST_KEYS))
        and 0 < int(most) <= MOST_KEYS
    )
    if not is_plain:
        return None
    token = options.get("continuation-token")
    after = options.get("start-after", "") if token is None else _key(token)
    if after is None:
        return None
    return PlainList(options.get("prefix", ""), after, int(most), token is not None, "encoding-type" in options)


def page(asked: PlainList, bucket: str, keys: Mapping[str, Any]) -> bytes:
    """The answer to *asked*: XML in the form of S3.

    Args:
        keys: moto's objects by their names, without versions. Another thread may change them meanwhile.
    """
    names = sorted(name for name in list(keys) if name > asked.after and name.startswith(asked.prefix))
    shown, is_truncated = [key for name in names[: asked.most] if (key := keys.get(name))], len(names) > asked.most
    head = {
        "Name": bucket,
        "Prefix": _written(asked.prefix, asked),
        "MaxKeys": str(asked.most),
        "KeyCount": str(len(shown)),
        "IsTruncated": "true" if is_truncated else "false",
    }
    if asked.is_url:
        head["EncodingType"] = "url"
    if asked.after and not asked.is_continued:
        head["StartAfter"] = _written(asked.after, asked)
    if is_truncated:
        head["NextContinuationToken"] = _token(names[asked.most - 1])
    elements = [_element(name, value) for name, value in head.items()]
    elements += ["".join(("<Contents>", *_facts(key, asked), "</Contents>")) for key in shown]
    body = "".join(elements)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{body}</ListBucketResult>'
    ).encode()


def _facts(key: Any, asked: PlainList) -> Iterable[str]:
    yield _element("Key", _written(key.name, asked))
    yield _element("LastModified", key.last_modified_ISO8601)
    yield _element("ETag", key.etag)
    yield _element("Size", str(key.size))
    yield _element("StorageClass", key.storage_class)
    if key.checksum_algorithm:
        yield _element("ChecksumAlgorithm", key.checksum_algorithm)


def _element(name: str, value: str) -> str:
    return f"<{name}>{escape(value)}</{name}>"


def _written(text: str, asked: PlainList) -> str:
    return quote(text) if asked.is_url else text


def _token(key: str) -> str:
    return _OURS + base64.urlsafe_b64encode(key.encode()).decode()


def _key(token: str) -> str | None:
    """The key of a token; None where the token is one of moto's, or of nobody."""
    if not token.startswith(_OURS):
        return None
    try:
        return base64.b64decode(token.removeprefix(_OURS), altchars=b"-_", validate=True).decode() or None
    except ValueError:  # among them binascii.Error and UnicodeDecodeError
        return None
