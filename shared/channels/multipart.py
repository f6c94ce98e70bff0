"""The body of a request that uploads files: ``multipart/form-data``, streamed from disk, its length known beforehand.

Source: RFC 7578; Telegram and Discord read names of files as UTF-8.
"""

import asyncio
import os
import re
import stat
import unicodedata
from collections.abc import AsyncGenerator, Mapping
from typing import Any, BinaryIO

import msgspec

from shared.channels import sanitize
from shared.channels.base import OutgoingFile
from shared.core import chance
from shared.core.errors import FilesRefused
from shared.core.text import half_characters

PIECE_BYTES = 256 * 1024
NAME_BYTES = 200  # file systems hold 255
_PLAIN = frozenset(" !#$&'()+,-.=@[]_~")


class Form(msgspec.Struct, frozen=True):
    """*fields* as text where they are str, else as JSON; then *files*, by the names of their parts.

    The same form may be sent several times.
    """

    fields: Mapping[str, Any]
    files: Mapping[str, OutgoingFile]
    boundary: str = msgspec.field(default_factory=lambda: f"postroom-{chance.token_hex(16)}")

    @property
    def content_type(self) -> str:
        return f"multipart/form-data; boundary={self.boundary}"

    @property
    def size(self) -> int:
        """In bytes, by the files' sizes when they were handed over."""
        heads = sum(len(self._head_of_file(name, file)) + 2 for name, file in self.files.items())
        return len(self._text()) + heads + sum(file.size for file in self.files.values()) + len(self._end())

    async def pieces(self) -> AsyncGenerator[bytes]:
        """The bytes of the body.

        Raises:
            FilesRefused: a file is gone or has changed since it was handed over.
        """
        yield self._text()
        for name, file in self.files.items():
            yield self._head_of_file(name, file)
            async for piece in _pieces(file):
                yield piece
            yield b"\r\n"
        yield self._end()

    async def check(self) -> None:
        """Look at every file before anything is sent.

        Raises:
            FilesRefused: as for ``pieces``.
        """
        for file in self.files.values():
            (await asyncio.to_thread(_open, file)).close()

    def _text(self) -> bytes:
        return b"".join(self._field(name, value) for name, value in self.fields.items())

    def _field(self, name: str, value: Any) -> bytes:
        if isinstance(value, str):
            return self._head(name) + half_characters.mend(value).encode() + b"\r\n"
        return self._head(name, media_type="application/json") + msgspec.json.encode(value) + b"\r\n"

    def _head_of_file(self, name: str, file: OutgoingFile) -> bytes:
        media_type = sanitize.mime(file.media_type) or "application/octet-stream"
        return self._head(name, f'; filename="{safe_name(file.name)}"', media_type)

    def _head(self, name: str, filename: str = "", media_type: str = "") -> bytes:
        kind = f"Content-Type: {media_type}\r\n" if media_type else ""
        lines = f'--{self.boundary}\r\nContent-Disposition: form-data; name="{name}"{filename}\r\n{kind}\r\n'
        return lines.encode()

    def _end(self) -> bytes:
        return f"--{self.boundary}--\r\n".encode()


def safe_name(name: str) -> str:
    """*name* without folders, quotes, controls and signs that no file name needs; not empty, its ending kept."""
    plain = unicodedata.normalize("NFC", sanitize.file_name(name))
    stem, dot, ending = "".join(map(_safe, plain)).strip(" .").rpartition(".")
    if not re.fullmatch(r"\w{1,16}", ending) or not stem:
        stem, dot, ending = stem + dot + ending, "", ""
    room = NAME_BYTES - len((dot + ending).encode())
    return (stem.encode()[:room].decode(errors="ignore") + dot + ending) or "file"


def _safe(character: str) -> str:
    return character if character in _PLAIN or unicodedata.category(character)[0] in "LMN" else "_"


async def _pieces(file: OutgoingFile) -> AsyncGenerator[bytes]:
    source = await asyncio.to_thread(_open, file)
    left = file.size
    with source:
        while left:
            piece = await asyncio.to_thread(source.read, min(left, PIECE_BYTES))
            if not piece:
                raise _changed(file)
            left -= len(piece)
            yield piece


def _open(file: OutgoingFile) -> BinaryIO:
    """Never waits for a pipe, and follows no link in place of the file."""
    try:
        number = os.open(file.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise FilesRefused(f"the file {file.name!r} can't be read ({reason}); nothing was sent") from None
    facts = os.fstat(number)
    if not stat.S_ISREG(facts.st_mode) or facts.st_size != file.size:
        os.close(number)
        raise _changed(file)
    return os.fdopen(number, "rb")


def _changed(file: OutgoingFile) -> FilesRefused:
    return FilesRefused(f"the file {file.name!r} has changed since it was handed over; nothing was sent")
