"""Objects that are sent in parts, as Litestream sends a copy of more than 5 MiB. An upload ends with this process."""

import hashlib
import os
import re
import time
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path

from emulator.storage.object_folder import ObjectFolder, StoredObject
from emulator.storage.s3_answers import document, element, error, xml
from emulator.storage.s3_requests import Answer, Asked

_MOST_PARTS = 10_000
_LEAST_BYTES = 5 * 1024 * 1024  # of a part, but for the last
_PART = re.compile(r"<Part>.*?</Part>", re.DOTALL)
_NUMBER = re.compile(r"<PartNumber>([0-9]{1,5})</PartNumber>")
_ETAG = re.compile(r"<ETag>([^<]+)</ETag>")


@dataclass(frozen=True, slots=True)
class _Part:
    path: Path
    etag: str
    size: int


@dataclass(frozen=True, slots=True)
class _Upload:
    bucket: str
    key: str
    metadata: dict[str, str]
    parts: dict[int, _Part] = field(default_factory=dict)


class Uploads:
    """The uploads that were begun here and not completed. One that moto began is moto's."""

    def __init__(self, folder: ObjectFolder) -> None:
        self._folder = folder
        self._uploads: dict[str, _Upload] = {}

    def begin(self, asked: Asked) -> Answer:
        """The name of a new upload (CreateMultipartUpload)."""
        name = os.urandom(16).hex()
        self._uploads[name] = _Upload(asked.bucket, asked.key, asked.metadata)
        of_object = element("Bucket", asked.bucket) + element("Key", asked.key)
        return xml(document("InitiateMultipartUploadResult", of_object + element("UploadId", name)))

    def take_part(self, asked: Asked, body: bytes) -> Answer | None:
        """Keep a part (UploadPart); a part of the same number is replaced. None where the upload is not ours."""
        name, number = asked.query["uploadId"], asked.query["partNumber"]
        upload = self._find(asked)
        if upload is None:
            return None
        if not re.fullmatch("[0-9]{1,5}", number) or not 1 <= int(number) <= _MOST_PARTS:
            return error("400 Bad Request", "InvalidArgument", f"partNumber is a number from 1 to {_MOST_PARTS}")
        etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
        path = self._folder.keep_part(asked.bucket, f"{name}-{int(number)}", body)
        upload.parts[int(number)] = _Part(path, etag, len(body))
        return "200 OK", [("ETag", f'"{etag}"'), ("Content-Length", "0")], []

    def complete(self, asked: Asked, body: bytes) -> Answer | None:
        """Make the object of the parts that *body* names (CompleteMultipartUpload). None where it is not ours."""
        upload = self._find(asked)
        if upload is None:
            return None
        named = [
            (int(number[1]), unescape(told[1]).strip('"'))
            for part in _PART.findall(body.decode("utf-8", "replace"))
            if (number := _NUMBER.search(part)) and (told := _ETAG.search(part))
        ]
        parts = [upload.parts.get(number) for number, _ in named]
        found = [part for part, (_, etag) in zip(parts, named, strict=True) if part is not None and part.etag == etag]
        if not named or len(found) < len(named):
            return error("400 Bad Request", "InvalidPart", "a part was not uploaded, or has another ETag")
        numbers = [number for number, _ in named]
        if numbers != sorted(set(numbers)):
            return error("400 Bad Request", "InvalidPartOrder", "the parts are not in the order of their numbers")
        if any(part.size < _LEAST_BYTES for part in found[:-1]):
            return error("400 Bad Request", "EntityTooSmall", "a part before the last has less than 5 MiB")
        digest = hashlib.md5(b"".join(bytes.fromhex(part.etag) for part in found), usedforsecurity=False).hexdigest()
        etag = f"{digest}-{len(found)}"
        item = StoredObject(upload.key, 0, upload.metadata, etag, time.time())
        self._folder.put(upload.bucket, item, (part.path.read_bytes() for part in found))
        self._forget(asked.query["uploadId"])
        facts = {"Bucket": upload.bucket, "Key": upload.key, "ETag": f'"{etag}"'}
        elements = "".join(element(name, value) for name, value in facts.items())
        return xml(document("CompleteMultipartUploadResult", elements))

    def abort(self, asked: Asked) -> Answer | None:
        """Remove what was uploaded (AbortMultipartUpload). None where the upload is not ours."""
        if self._find(asked) is None:
            return None
        self._forget(asked.query["uploadId"])
        return "204 No Content", [], []

    def _find(self, asked: Asked) -> _Upload | None:
        found = self._uploads.get(asked.query["uploadId"])
        return found if found is not None and (found.bucket, found.key) == (asked.bucket, asked.key) else None

    def _forget(self, name: str) -> None:
        upload = self._uploads.pop(name, None)  # None: another request has ended it meanwhile
        for part in upload.parts.values() if upload is not None else ():
            part.path.unlink(missing_ok=True)
