"""What S3 answers to the operations of ``s3_requests``, from the objects in the folder."""

import hashlib
import re
import time
from html import unescape

from emulator.storage.object_folder import ObjectFolder, StoredObject
from emulator.storage.s3_answers import INCOMPLETE, document, element, error, xml
from emulator.storage.s3_listing import page, read_listing
from emulator.storage.s3_requests import Answer, Asked
from emulator.storage.s3_uploads import Uploads

_PLAIN_TEXT = re.compile(r"[ -~]*")  # what a header may hold
_KEY = re.compile(r"<Key>([^<]+)</Key>")


def answer(asked: Asked, folder: ObjectFolder, uploads: Uploads, body: bytes) -> Answer | None:
    """The answer; None where moto has to give it. A change is on disk by then.

    Args:
        body: of the request, as much of it as came.
    """
    objects = folder.buckets.get(asked.bucket)
    if objects is None:
        return None
    if len(body) < asked.length:
        return INCOMPLETE
    match asked.operation:
        case "get" | "head":
            return _read(asked, folder)
        case "list":
            listing = read_listing(asked.query)
            return None if listing is None else xml(page(listing, asked.bucket, objects))
        case "put":
            with folder.lock:
                return _refusal(asked, folder.find(asked.bucket, asked.key)) or _put(asked, folder, body)
        case "delete":
            folder.delete(asked.bucket, asked.key)
            return "204 No Content", [], []
        case "delete_many":
            return _delete_many(asked, folder, body)
        case _:
            return _answer_upload(asked, folder, uploads, body)


def _answer_upload(asked: Asked, folder: ObjectFolder, uploads: Uploads, body: bytes) -> Answer | None:
    match asked.operation:
        case "begin_upload":
            return uploads.begin(asked)
        case "put_part":
            return uploads.take_part(asked, body)
        case "complete_upload":
            with folder.lock:
                return _refusal(asked, folder.find(asked.bucket, asked.key)) or uploads.complete(asked, body)
        case _:
            return uploads.abort(asked)


def _is_sendable(found: StoredObject) -> bool:
    """Whether headers can hold the object's metadata; those of an upload by a form may have line breaks."""
    return all(_PLAIN_TEXT.fullmatch(text) for pair in found.metadata.items() for text in pair)


def _read(asked: Asked, folder: ObjectFolder) -> Answer | None:
    first, last = asked.range or (0, None)
    length = -1 if last is None else max(last - first + 1, 0)
    read = folder.read(asked.bucket, asked.key, first, length if asked.operation == "get" else 0)
    if read is None:
        status, headers, content = error("404 Not Found", "NoSuchKey", "The specified key does not exist.")
        return status, headers, content if asked.operation == "get" else []
    found, body = read
    if not _is_sendable(found) or (asked.range and (first >= found.size or length == 0)):
        return None
    size = found.size if asked.operation == "head" else len(body)
    modified = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(found.modified_at))
    facts = {"ETag": f'"{found.etag}"', "last-modified": modified, "content-length": str(size), **found.metadata}
    headers = [*facts.items(), ("Accept-Ranges", "bytes")]
    if asked.range is None:
        return "200 OK", headers, [body]
    return (
        "206 Partial Content",
        [*headers, ("Content-Range", f"bytes {first}-{first + size - 1}/{found.size}")],
        [body],
    )


def _refusal(asked: Asked, known: StoredObject | None) -> Answer | None:
    """Why the condition of a PUT does not hold."""
    wanted, unwanted = (asked.environ.get(f"HTTP_IF_{name}", "").strip('"') for name in ("MATCH", "NONE_MATCH"))
    if wanted and known is None:
        return error("404 Not Found", "NoSuchKey", "The specified key does not exist.")
    if known is not None and ((wanted and wanted != known.etag) or unwanted in ("*", known.etag)):
        return error("412 Precondition Failed", "PreconditionFailed", "a condition that you gave does not hold")
    return None


def _put(asked: Asked, folder: ObjectFolder, body: bytes) -> Answer:
    etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
    folder.put(asked.bucket, StoredObject(asked.key, len(body), asked.metadata, etag, time.time()), [body])
    return "200 OK", [("ETag", f'"{etag}"'), ("Content-Length", "0")], []


def _delete_many(asked: Asked, folder: ObjectFolder, body: bytes) -> Answer:
    keys = [unescape(key) for key in _KEY.findall(body.decode("utf-8", "replace"))]
    if not keys:
        return error("400 Bad Request", "MalformedXML", "the body has no keys")
    for key in keys:
        folder.delete(asked.bucket, key)
    return xml(document("DeleteResult", "".join(f"<Deleted>{element('Key', key)}</Deleted>" for key in keys)))
