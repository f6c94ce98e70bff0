"""A bucket as pyarrow's file system, and small objects that are written only if they are unchanged."""

import os
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from pyarrow import fs

from shared.core.errors import InUse
from shared.db.replica.positions.litestream import ask_store, environment_of
from shared.db.replica.positions.urls import check_url, endpoint_of, is_on_this_machine, shown
from shared.db.replica.stored_objects import ObjectChanged


def open_bucket(url: str) -> tuple[Any, str]:
    """pyarrow's file system of the bucket of *url* (``s3://bucket/prefix?endpoint=...``), and the path of its prefix.

    Raises:
        ReplicaInvalid: the URL is not usable, or holds credentials.
    """
    check_url(url)
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    settings: dict[str, Any] = {}
    if region := query.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"):
        settings["region"] = region
    if endpoint := urlsplit(endpoint_of(url)):
        settings |= {"endpoint_override": endpoint.netloc, "scheme": endpoint.scheme} if endpoint.netloc else {}
    if is_on_this_machine(url):
        environment = environment_of(url)
        settings |= {
            "access_key": environment["AWS_ACCESS_KEY_ID"],
            "secret_key": environment["AWS_SECRET_ACCESS_KEY"],
            "region": settings.get("region", "us-east-1"),
        }
    path = "/".join(part for part in (parts.netloc, unquote(parts.path).strip("/")) if part)
    return fs.S3FileSystem(**settings), path


def read_object(url: str, name: str) -> tuple[bytes, str] | None:
    """The object *name* below *url* and the tag of its version; None where there is none."""
    found = ask_store(url, lambda store: store.get(name))
    return None if found is None else (found.body, found.tag)


def replace_object(url: str, name: str, body: bytes, tag: str | None) -> None:
    """Write the object *name* below *url*, if its version is still *tag* (None: if there is no such object).

    Raises:
        InUse: another writer was quicker; nothing was written.
    """
    try:
        ask_store(url, lambda store: store.put(name, body, replacing=tag))
    except ObjectChanged:
        raise InUse(f"another run has just written to {shown(url)}: nothing was changed; run this one again") from None
