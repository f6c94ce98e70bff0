"""moto over the same objects, for all requests that are not operations of ``s3_requests``.

moto takes half a second and 40 MB, so it is loaded at the first such request. It keeps objects in memory: before each
request they become those in the folder, and after it the folder gets what has changed.

Kept on disk for each object: body, content type, user metadata, ETag, and the instant of the last change. Not kept:
object versions, tags, ACLs and uploads that were not completed.
"""

import datetime
import io
import os
from collections.abc import Callable
from typing import Any

from emulator.storage.object_folder import ObjectFolder, StoredObject
from emulator.storage.s3_answers import INCOMPLETE, error
from emulator.storage.s3_requests import Answer

Application = Callable[..., Any]


class MotoView:
    """moto's answers. One request at a time: moto is for what programs ask rarely.

    Args:
        load: returns moto's WSGI application and its backend of S3.
    """

    def __init__(self, folder: ObjectFolder, load: Callable[[], tuple[Application, Any]]) -> None:
        self._folder = folder
        self._load = load
        self._moto: tuple[Application, Any] | None = None
        self._seen: dict[tuple[str, str], tuple[StoredObject, Any]] = {}  # as in the folder, as in moto
        self._written: dict[tuple[str, str], StoredObject] = {}  # through moto, which knows more of them

    def owns(self, bucket: str, key: str) -> bool:
        """Whether only moto may answer: it stored this object, or the bucket has versions, locks or a policy."""
        found = None if self._moto is None else self._moto[1].buckets.get(bucket)
        if found is None:
            return False
        is_own = found.versioning_status or found.object_lock_enabled or found.encryption or found.policy
        if is_own or found.notification_configuration:
            return True
        written = self._written.get((bucket, key))
        return written is not None and written is self._folder.find(bucket, key)

    def answer(self, environ: dict[str, Any]) -> Answer:
        """moto's answer; that to a change when the change is on disk, and 503 where the disk refuses it."""
        length = environ.get("CONTENT_LENGTH") or "0"
        if not environ.get("wsgi.input_terminated") and length.isdecimal():
            # Before the lock: a slow client must not delay others.
            sent = environ["wsgi.input"].read(int(length))
            if len(sent) < int(length):
                return INCOMPLETE
            environ = {**environ, "wsgi.input": io.BytesIO(sent)}
        told: list[Any] = []

        def remember(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], Any]:
            told[:] = [status, headers]
            return lambda data: None

        with self._folder.lock:
            if self._moto is None:
                self._moto = self._load()
            application, backend = self._moto
            self._take_in(backend)
            body = list(application(environ, remember))
            try:
                self._write_out(backend)
            except OSError as refused:
                # The change is in moto's memory only, until the next request takes in what is on disk.
                return error("503 Service Unavailable", "SlowDown", f"the disk refused the object: {refused.strerror}")
        return told[0], told[1], body

    def _take_in(self, backend: Any) -> None:
        """Make moto equal to the folder."""
        for bucket, objects in self._folder.buckets.items():
            if bucket not in backend.buckets:
                backend.create_bucket(bucket, "us-east-1")
            known = backend.buckets[bucket].keys
            for key in [key for key in known if key not in objects and not _is_marker(known.get(key))]:
                backend.delete_object(bucket, key)
                self._seen.pop((bucket, key), None)
            for key, item in list(objects.items()):
                seen = self._seen.get((bucket, key))
                if seen is None or seen[0] is not item or seen[1] is not known.get(key):
                    self._remember(backend, bucket, item)

    def _remember(self, backend: Any, bucket: str, item: StoredObject) -> None:
        read = self._folder.read(bucket, item.key)
        if read is None:
            return
        key = backend.put_object(bucket, item.key, read[1], etag=item.etag, disable_notification=True)
        key.set_metadata(dict(item.metadata), replace=True)
        key.set_acl(backend.buckets[bucket].acl)
        key.last_modified = datetime.datetime.fromtimestamp(item.modified_at, datetime.UTC).replace(tzinfo=None)
        self._seen[bucket, item.key] = item, key

    def _write_out(self, backend: Any) -> None:
        """Make the folder equal to moto. An object that did not change is not written again."""
        for bucket in [name for name in self._folder.buckets if name not in backend.buckets]:
            self._folder.remove_bucket(bucket)
        for bucket, owner in list(backend.buckets.items()):
            if bucket not in self._folder.buckets:
                self._folder.add_bucket(bucket)
            objects = self._folder.buckets[bucket]
            for name in [name for name in objects if _is_marker(owner.keys.get(name))]:
                self._folder.delete(bucket, name)
            for name in list(owner.keys):
                key = owner.keys.get(name)
                if not _is_marker(key) and self._seen.get((bucket, name), (None, None))[1] is not key:
                    self._write(bucket, name, key)

    def _write(self, bucket: str, name: str, key: Any) -> None:
        modified_at = key.last_modified.replace(tzinfo=datetime.UTC).timestamp()
        metadata = {str(field): str(value) for field, value in key.metadata.items()}
        item = StoredObject(name, key.size, metadata, key.etag.strip('"'), modified_at)
        item = self._folder.put(bucket, item, [key.value])
        self._seen[bucket, name] = item, key
        self._written[bucket, name] = item


def load_moto() -> tuple[Application, Any]:
    """moto's WSGI application, and its backend of S3."""
    os.environ.setdefault("MOTO_S3_DEFAULT_KEY_BUFFER_SIZE", str(1 << 20))  # moto reads it while it is imported
    import moto.iam.models  # noqa: F401 - every request needs it
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from moto.s3.models import s3_backends

    return DomainDispatcherApplication(create_backend_app), s3_backends[DEFAULT_ACCOUNT_ID]["aws"]


def _is_marker(key: Any) -> bool:
    """Whether moto has no object there: none, or a version that says so."""
    return key is None or type(key).__name__ == "FakeDeleteMarker"
