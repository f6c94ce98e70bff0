"""A page of a bucket's listing (ListObjectsV2). Litestream lists what it has sent before each of its compactions."""

import base64
import time
from collections.abc import Iterable, Mapping
from html import escape
from typing import NamedTuple
from urllib.parse import quote

from emulator.storage.object_folder import StoredObject

MOST_KEYS = 1000
_OURS = "after-"  # so begins each of our tokens; moto's are hexadecimal


class Listing(NamedTuple):
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


def read_listing(query: Mapping[str, str]) -> Listing | None:
    """The listing that the parameters ask for; None where moto has to look at it."""
    most = query.get("max-keys", str(MOST_KEYS))
    is_ours = (
        query.get("list-type") == "2"
        and query.get("encoding-type", "url") == "url"
        and most.isascii()
        and most.isdecimal()
        and len(most) <= len(str(MOST_KEYS))
        and 0 < int(most) <= MOST_KEYS
    )
    token = query.get("continuation-token")
    after = query.get("start-after", "") if token is None else _key(token)
    if not is_ours or after is None:
        return None
    return Listing(query.get("prefix", ""), after, int(most), token is not None, "encoding-type" in query)


def page(asked: Listing, bucket: str, objects: Mapping[str, StoredObject]) -> bytes:
    """The answer to *asked*: XML in the form of S3.

    Args:
        objects: by their keys. Another thread may change them meanwhile.
    """
    names = sorted(name for name in list(objects) if name > asked.after and name.startswith(asked.prefix))
    shown = [found for name in names[: asked.most] if (found := objects.get(name))]
    is_truncated = len(names) > asked.most
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
    elements = [element(name, value) for name, value in head.items()]
    elements += ["".join(("<Contents>", *_facts(found, asked), "</Contents>")) for found in shown]
    return document("ListBucketResult", "".join(elements))


def document(name: str, content: str) -> bytes:
    """An answer of S3 in XML."""
    body = f'<{name} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{content}</{name}>'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}'.encode()


def element(name: str, value: str) -> str:
    """An element with text in it."""
    return f"<{name}>{escape(value, quote=False)}</{name}>"


def _facts(found: StoredObject, asked: Listing) -> Iterable[str]:
    yield element("Key", _written(found.key, asked))
    yield element("LastModified", time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(found.modified_at)))
    yield element("ETag", f'"{found.etag}"')
    yield element("Size", str(found.size))
    yield element("StorageClass", "STANDARD")


def _written(text: str, asked: Listing) -> str:
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
