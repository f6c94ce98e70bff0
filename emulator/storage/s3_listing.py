"""A page of a bucket's listing (ListObjectsV2). Litestream lists what it has sent before each of its compactions."""

import base64
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import quote

from emulator.storage.object_folder import StoredObject
from emulator.storage.s3_answers import document, element

MOST_KEYS = 1000
_OURS = "after-"  # so begins each of our tokens; moto's are hexadecimal


class Listing(NamedTuple):
    """A listing of the keys that begin with *prefix* and come behind *after*.

    Attributes:
        is_continued: *after* is from a page before.
        is_url: the answer has its keys URL-encoded.
        delimiter: keys that are alike as far as its first place behind the prefix are one line of the listing.
    """

    prefix: str
    after: str
    most: int
    is_continued: bool
    is_url: bool
    delimiter: str = ""


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
    delimiter = query.get("delimiter", "")
    if not is_ours or after is None or (delimiter and "start-after" in query):
        return None
    prefix, is_url = query.get("prefix", ""), "encoding-type" in query
    return Listing(prefix, after, int(most), token is not None, is_url, delimiter)


def page(asked: Listing, bucket: str, objects: Mapping[str, StoredObject]) -> bytes:
    """The answer to *asked*: XML in the form of S3.

    Args:
        objects: by their keys. Another thread may change them meanwhile.
    """
    lines = {_common(name, asked) or name for name in list(objects) if name.startswith(asked.prefix)}
    names = sorted(name for name in lines if name > asked.after)
    common = [name for name in names[: asked.most] if _common(name, asked)]
    shown = [found for name in names[: asked.most] if not _common(name, asked) and (found := objects.get(name))]
    is_truncated = len(names) > asked.most
    head = {
        "Name": bucket,
        "Prefix": _written(asked.prefix, asked),
        "MaxKeys": str(asked.most),
        "KeyCount": str(len(shown) + len(common)),
        "IsTruncated": "true" if is_truncated else "false",
    }
    if asked.is_url:
        head["EncodingType"] = "url"
    if asked.delimiter:
        head["Delimiter"] = _written(asked.delimiter, asked)
    if asked.after and not asked.is_continued:
        head["StartAfter"] = _written(asked.after, asked)
    if is_truncated:
        head["NextContinuationToken"] = _token(names[asked.most - 1])
    elements = [element(name, value) for name, value in head.items()]
    elements += ["".join(("<Contents>", *_facts(found, asked), "</Contents>")) for found in shown]
    elements += [f"<CommonPrefixes>{element('Prefix', _written(name, asked))}</CommonPrefixes>" for name in common]
    return document("ListBucketResult", "".join(elements))


def _common(key: str, asked: Listing) -> str:
    """What stands for the key and all that are alike in a listing with a delimiter; empty: the key itself does."""
    behind, found, _ = key[len(asked.prefix) :].partition(asked.delimiter) if asked.delimiter else ("", "", "")
    return asked.prefix + behind + found if found else ""


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
