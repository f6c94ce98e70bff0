"""Files on the fake Telegram: what a call sends as a photo, document, voice ..., and ``file_id`` and ``getFile``.

A ``file_id`` belongs to one bot and keeps its kind. A fake has no way to the Internet, so an address is refused.

Source: https://core.telegram.org/bots/api#sending-files, #getfile; wording after the open source of the server.
"""

import base64
import mimetypes
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import msgspec
from aiohttp import web

from emulator.platforms import file_formats
from emulator.platforms.files import StoredFile
from emulator.platforms.store import PlatformStore
from emulator.platforms.telegram import media
from emulator.platforms.telegram.bot import TelegramBot
from emulator.platforms.telegram.calls import ApiMethod, MethodResult, Params, TelegramError, TelegramUpload, uploads_of

MIB = 1 << 20
MAX_PHOTO_BYTES, MAX_UPLOAD_BYTES, MAX_DOWNLOAD_BYTES = 10 * MIB, 50 * MIB, 20 * MIB
MAX_PHOTO_SIDES, MAX_PHOTO_RATIO = 10_000, 20
KINDS = ("photo", "document", "audio", "video", "animation", "voice", "video_note", "sticker")
_GUESSES: Mapping[str, tuple[str, str]] = {
    "photo": ("photo.jpg", "image/jpeg"),
    "voice": ("voice.ogg", "audio/ogg"),
    "audio": ("audio.mp3", "audio/mpeg"),
    "video": ("video.mp4", "video/mp4"),
    "animation": ("animation.mp4", "video/mp4"),
    "video_note": ("note.mp4", "video/mp4"),
    "sticker": ("sticker.webp", "image/webp"),
}


class _FileId(msgspec.Struct, frozen=True):
    kind: str
    file: str


class TelegramFiles:
    """Keeps uploads, and finds files again by their ``file_id``."""

    def __init__(self, store: PlatformStore, bot: TelegramBot) -> None:
        self._store, self._bot = store, bot

    def methods(self) -> tuple[ApiMethod, ...]:
        return (ApiMethod("getFile", self._get_file),)

    def take(self, kind: str, value: Any, params: Params, *, now_ms: int) -> dict[str, Any]:
        """The entry of ``detail["files"]`` for *value*: an upload, ``attach://part``, or a ``file_id``."""
        given = str(value if value is not None else "")
        if not given:
            raise TelegramError(400, f"Bad Request: there is no {kind} in the request")
        upload = uploads_of(params).get(given.removeprefix("attach://")) if given.startswith("attach://") else None
        if upload is not None:
            return self.keep(kind, upload, now_ms=now_ms)
        if given.startswith("attach://"):
            raise TelegramError(400, "Bad Request: file must be non-empty")
        if given.startswith(("http://", "https://")):
            raise TelegramError(400, "Bad Request: failed to get HTTP URL content")
        return self._known(kind, given)

    def keep(self, kind: str, upload: TelegramUpload, *, now_ms: int) -> dict[str, Any]:
        """Keep an upload, and describe it. A voice of another format becomes a document."""
        _check(kind, upload)
        if kind == "voice" and not file_formats.is_voice(upload.data):
            kind = "document"
        name, mime = _GUESSES.get(kind, (upload.name, upload.mime))
        if kind != "photo":
            name = upload.name or name
            mime = _mime(name, upload.mime) or mime
        size = file_formats.image_size(upload.data)
        shape = {"width": size[0], "height": size[1]} if size else {}
        return self._store.files.add(name or "file", mime, upload.data, now_ms=now_ms).shown(kind, **shape)

    def _known(self, kind: str, file_id: str) -> dict[str, Any]:
        found = self._read(file_id)
        file = self._store.files.get(found.file) if found else None
        if found is None or file is None:
            raise TelegramError(400, "Bad Request: wrong remote file identifier specified: can't unserialize it")
        if found.kind != kind:
            raise TelegramError(400, f"Bad Request: can't use file of type {found.kind} as {kind}")
        size = file_formats.image_size(file.data)
        return file.shown(kind, **({"width": size[0], "height": size[1]} if size else {}))

    # ids

    def file_id(self, shown: Mapping[str, Any]) -> str:
        """The id that this bot alone can use."""
        raw = f"{shown['kind']}:{self._bot.id}:{shown['id']}".encode()
        return "BQAC" + base64.urlsafe_b64encode(raw).decode().rstrip("=")

    def _read(self, file_id: str) -> _FileId | None:
        raw = file_id.removeprefix("BQAC")
        try:
            kind, bot, file = base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4)).decode().split(":")
        except ValueError:
            return None
        return _FileId(kind, file) if bot == str(self._bot.id) else None

    def wired(self, shown: Mapping[str, Any]) -> dict[str, Any]:
        """The keys of a message for one file: ``photo``, ``document`` ..."""
        return media.wired(shown, self.file_id(shown))

    # downloads

    async def _get_file(self, params: Params) -> MethodResult:
        file_id = str(params.get("file_id") or "")
        found = self._read(file_id)
        file = self._store.files.get(found.file) if found else None
        if found is None or file is None:
            raise TelegramError(400, "Bad Request: invalid file_id")
        if file.size > MAX_DOWNLOAD_BYTES:
            raise TelegramError(400, "Bad Request: file is too big")
        described = self.wired({**file.shown(found.kind)})[found.kind]
        common = described[0] if isinstance(described, list) else described
        wired = {key: common[key] for key in ("file_id", "file_unique_id", "file_size")}
        return MethodResult({**wired, "file_path": f"{found.kind}s/{file.id}{PurePosixPath(file.name).suffix}"})

    def serve(self, path: str) -> web.Response | None:
        """The bytes at a ``file_path``; None where there are none."""
        folder, _, name = path.partition("/")
        file: StoredFile | None = self._store.files.get(PurePosixPath(name).stem) if folder[:-1] in KINDS else None
        return None if file is None else web.Response(body=file.data, content_type="application/octet-stream")


def _mime(name: str, given: str) -> str:
    return given if given and given != "application/octet-stream" else (mimetypes.guess_type(name)[0] or given)


def _check(kind: str, upload: TelegramUpload) -> None:
    """Telegram's limits for an upload."""
    if not upload.data:
        raise TelegramError(400, "Bad Request: file must be non-empty")
    if len(upload.data) > MAX_UPLOAD_BYTES:
        raise TelegramError(413, "Request Entity Too Large")
    if kind != "photo":
        return
    if len(upload.data) > MAX_PHOTO_BYTES:
        limit = f"the maximum size is {MAX_PHOTO_BYTES} bytes"
        raise TelegramError(400, f"Bad Request: file of size {len(upload.data)} bytes is too big for a photo; {limit}")
    size = file_formats.image_size(upload.data)
    if size is None:
        raise TelegramError(400, "Bad Request: IMAGE_PROCESS_FAILED")
    width, height = size
    if not width or not height or width + height > MAX_PHOTO_SIDES or max(size) > MAX_PHOTO_RATIO * min(size):
        raise TelegramError(400, "Bad Request: PHOTO_INVALID_DIMENSIONS")
