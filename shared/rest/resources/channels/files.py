"""Files that clients hand over, to be sent with a response. No path of this host is ever taken from a client."""

import asyncio
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from starlette.requests import ClientDisconnect, Request
from typing_extensions import TypedDict

from shared.agents import session_files
from shared.channels import outgoing_files
from shared.channels.base import OutgoingFile
from shared.core import ids
from shared.core.errors import NotFound
from shared.rest.http.endpoint import Query, RequestRefused, endpoint
from shared.rest.http.service import Service

ID = r"^file_[0-9a-z]{8}$"
FileId = Annotated[str, Field(pattern=ID)]


class UploadQuery(Query):
    """*name*: what the person sees; made safe. *type* and size are those of the content."""

    name: str = Field(default="file", min_length=1, max_length=200)


class HandedFile(TypedDict):
    """*file*: the id for ``files`` of ``POST /api/responses``, for a week. *kind*: how a chat shows it."""

    ok: Literal[True]
    file: str
    name: str
    type: str
    bytes: int
    kind: str


@endpoint("POST", "/api/files", {400: "the body is empty", 413: "the file is larger than 50 MiB"})
async def post_file(service: Service, *, query: UploadQuery, request: Request) -> HandedFile:
    """Hand over a file, as the bytes of the body, to be sent by ``POST /api/responses``."""
    file_id = ids.new("file")
    path = await asyncio.to_thread(_new, service.settings.files / file_id, query.name)
    try:
        await _write(path, request)
    except BaseException:
        await asyncio.to_thread(_remove, path)
        raise
    file = await asyncio.to_thread(outgoing_files.described, path)
    return {
        "ok": True,
        "file": file_id,
        "name": file.name,
        "type": file.media_type,
        "bytes": file.size,
        "kind": file.kind,
    }


def _new(folder: Path, name: str) -> Path:
    return session_files.new_file(folder, session_files.safe_name(name), b"")


async def _write(path: Path, request: Request) -> None:
    size = 0
    try:
        with path.open("ab") as file:
            async for piece in request.stream():
                size += len(piece)
                if size > session_files.LARGEST_BYTES:
                    raise RequestRefused(413, f"the file is larger than {session_files.LARGEST_BYTES // 1024**2} MiB")
                await asyncio.to_thread(file.write, piece)
            await asyncio.to_thread(session_files.sync, file)
    except ClientDisconnect:
        raise RequestRefused(499, "the client disconnected before the end of the file") from None
    if size == 0:
        raise RequestRefused(400, "the body is empty: send the bytes of the file as the body")


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.parent.rmdir()


def found(store: Path, file_id: str) -> OutgoingFile:
    """The file that was handed over under this id. Reads it: not for the loop.

    Raises:
        NotFound: there is none.
    """
    if not re.fullmatch(ID, file_id):
        raise NotFound(f"there is no file {file_id!r}: POST /api/files gives the id")
    try:
        (path,) = (store / file_id).iterdir()
        return outgoing_files.described(path)
    except (OSError, ValueError):
        raise NotFound(
            f"there is no file {file_id!r}, or it was deleted: hand it over again by POST /api/files"
        ) from None


ENDPOINTS = (post_file,)
