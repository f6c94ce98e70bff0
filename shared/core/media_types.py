"""The type of a file, by what it holds where that tells; its name and what its sender says are only hints.

A few types are told by their first bytes alone: a file that is called ``photo.jpg`` and holds something else is no
photo. Nothing is opened or unpacked.
"""

import mimetypes
from functools import cache

FIRST_BYTES = 32  # what ``of_content`` needs
UNKNOWN = "application/octet-stream"

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\x1aE\xdf\xa3", "video/webm"),
)
_BRANDS = ((b"M4A ", "audio/mp4"), (b"M4B ", "audio/mp4"), (b"qt  ", "video/quicktime"))
_ENDINGS = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "application/pdf": ".pdf",
    "audio/ogg": ".ogg",
    "audio/mpeg": ".mp3",
    "audio/mp4": ".m4a",
    "audio/wav": ".wav",
    "video/webm": ".webm",
    "video/mp4": ".mp4",
    "video/quicktime": ".mov",
}
BY_CONTENT = frozenset(_ENDINGS)


def of_content(first: bytes) -> str | None:
    """The type by the first bytes of a file; None where they don't tell. Pure."""
    if first[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(first[8:12])
    if first[4:8] == b"ftyp":
        return next((media_type for brand, media_type in _BRANDS if first[8:12] == brand), "video/mp4")
    return next((media_type for signature, media_type in _SIGNATURES if first.startswith(signature)), None)


def of(first: bytes, said: str | None) -> str:
    """The type of a file that begins with *first* and is said to be *said*. Pure."""
    found = of_content(first)
    if found is not None:
        return found
    return UNKNOWN if said is None or said in BY_CONTENT else said


def of_name(name: str) -> str | None:
    """The type that the ending of *name* stands for, the same on every machine; None: nobody knows. Pure."""
    return _types().guess_type(f"file.{name.rpartition('.')[2]}", strict=True)[0] if "." in name else None


def ending(media_type: str) -> str:
    """The ending for a file without a name, such as ``.jpg``; empty where the content didn't tell its type. Pure."""
    return _ENDINGS.get(media_type, "")


@cache
def _types() -> mimetypes.MimeTypes:
    """Python's own list, not the host's; made for the first file, because Python reads the host's all the same.

    Python 3.11 has no ``.ogg`` and ``.webp`` in it.
    """
    types = mimetypes.MimeTypes()
    for media_type, ending_ in _ENDINGS.items():
        types.add_type(media_type, ending_)
    return types
