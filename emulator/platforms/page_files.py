"""Files on the chat page: what a person uploads, and what the page shows of a message's files.

Whatever a file claims to be, the browser gets one of the types below or a download: nothing in it runs as a page.
"""

import json
from typing import Any

from aiohttp import web

from emulator.platforms.errors import ActionRefused
from emulator.platforms.files import FileStore

MOST_FILES = 30
MAX_FORM_BYTES = 52 << 20  # a file of 50 MiB, and its other parts
MAX_NAME = 255
_IMAGES = frozenset({"image/png", "image/jpeg", "image/webp"})
_SHOWN = _IMAGES | {
    "image/gif", "audio/mpeg", "audio/ogg", "audio/mp4", "audio/wav", "audio/webm", "video/mp4", "video/webm",
}  # fmt: skip
_AUDIO = frozenset({"audio/mpeg", "audio/mp4"})
_KINDS = ("photo", "video", "animation", "audio", "voice", "document")
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, max-age=31536000, immutable",
    "Cross-Origin-Resource-Policy": "same-origin",
}


async def read_upload(request: web.Request, store: FileStore, *, now_ms: int) -> dict[str, Any]:
    """The fields of a multipart form, with ``files``: a list of objects as in ``detail["files"]`` of a message.

    The field ``kinds`` holds a JSON list: how the person sends each file (``photo``, ``document``, ``voice`` …); ""
    leaves it to the type of the file.
    """
    form = await request.post()
    fields = {key: value for key, value in form.items() if isinstance(value, str)}
    uploads = [value for value in form.getall("file", []) if isinstance(value, web.FileField)]
    if len(uploads) > MOST_FILES:
        raise ActionRefused(f"the page sends at most {MOST_FILES} files at once")
    kinds = json.loads(fields.pop("kinds", "[]"))
    if not isinstance(kinds, list):
        raise ActionRefused('"kinds" is a list with one word for each file')
    shown: list[dict[str, Any]] = []
    for number, upload in enumerate(uploads):
        mime = upload.content_type.split(";")[0].strip().lower()
        wanted = str(kinds[number]) if number < len(kinds) else ""
        with upload.file as part:
            kept = store.add(upload.filename[:MAX_NAME] or "file", mime, part.read(), now_ms=now_ms)
        shown.append(kept.shown(wanted if wanted in _KINDS else kind_of(mime)))
    return {**fields, "files": shown}


def kind_of(mime: str) -> str:
    """How Telegram's apps send a file of this type, unless the person chooses otherwise."""
    if mime in _IMAGES:
        return "photo"
    if mime in _AUDIO:
        return "audio"
    return {"image/gif": "animation", "video/mp4": "video"}.get(mime, "document")


def serve(store: FileStore, file_id: str) -> web.Response:
    """A stored file: shown in the page if its type is safe to show, else a download of unknown bytes."""
    file = store.get(file_id)
    if file is None:
        raise web.HTTPNotFound(text=f"there is no file {file_id}")
    if file.mime in _SHOWN:
        return web.Response(body=file.data, content_type=file.mime, headers=_HEADERS)
    headers = {**_HEADERS, "Content-Disposition": "attachment"}
    return web.Response(body=file.data, content_type="application/octet-stream", headers=headers)


def is_shown(mime: str) -> bool:
    """Whether the browser may show a file of this type; any other is a download."""
    return mime in _SHOWN
