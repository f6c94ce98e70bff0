"""Files as Telegram takes them: which go together, where their text stands, and which method sends them. Pure.

Source: https://core.telegram.org/bots/api (10.3): #sendmediagroup, #inputmedia, #sending-files, #editmessagemedia.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import msgspec

from shared.channels.base import FileKind, OutgoingFile
from shared.core.errors import FilesRefused, PartTooLong

UPLOAD_BYTES = 50_000_000  # of one file; and of one album, because more is refused as one request
PHOTO_BYTES = 10_000_000  # a larger photo goes out as a document
ALBUM_FILES = 10

_METHODS: dict[FileKind, str] = {
    "photo": "sendPhoto",
    "document": "sendDocument",
    "video": "sendVideo",
    "audio": "sendAudio",
    "voice": "sendVoice",
    "animation": "sendAnimation",
}
_FAMILIES: dict[FileKind, str] = {"photo": "pictures", "video": "pictures", "document": "documents", "audio": "audio"}
_CAPTIONS_BELOW_EACH = ("document", "audio")  # in an album of them, only the last caption reads as the album's


class MediaUpload(msgspec.Struct, frozen=True):
    """The part of a call that has files: *fields* of the body refer to *files* by name."""

    method: str
    fields: dict[str, Any]
    files: Mapping[str, OutgoingFile]


def albums(files: Sequence[OutgoingFile]) -> Iterator[tuple[OutgoingFile, ...]]:
    """*files* in their order, in groups that one message or one album can hold; groups of like size."""
    fitting = [replace(file, kind="document") if _is_too_large_a_photo(file) else file for file in files]
    for family, run in groupby(fitting, key=lambda file: _FAMILIES.get(file.kind)):
        if family is None:  # voice and animations are always alone
            yield from ((file,) for file in run)
        else:
            for light in _by_size(tuple(run)):
                yield from _balanced(light)


def _is_too_large_a_photo(file: OutgoingFile) -> bool:
    return file.kind == "photo" and file.size > PHOTO_BYTES


def _by_size(files: tuple[OutgoingFile, ...]) -> Iterator[tuple[OutgoingFile, ...]]:
    start, total = 0, 0
    for at, file in enumerate(files):
        if at > start and total + file.size > UPLOAD_BYTES:
            yield files[start:at]
            start, total = at, 0
        total += file.size
    yield files[start:]


def _balanced(files: tuple[OutgoingFile, ...]) -> Iterator[tuple[OutgoingFile, ...]]:
    """6 and 5 of eleven, not 10 and 1."""
    groups = -(-len(files) // ALBUM_FILES)
    for group in range(groups):
        yield files[len(files) * group // groups : len(files) * (group + 1) // groups]


def upload(files: Sequence[OutgoingFile], words: dict[str, Any], *, is_private: bool, has_buttons: bool) -> MediaUpload:
    """The call that sends *files* with their caption, *words*.

    Args:
        is_private: only one person of the chat may see it.

    Raises:
        PartTooLong: an album can have no buttons, and can't be shown to one person of a group; single files can.
    """
    if len(files) == 1:
        return MediaUpload(_METHODS[files[0].kind], words, {files[0].kind: files[0]})
    if has_buttons:
        raise PartTooLong("Telegram shows no buttons under several files; nothing was sent")
    if is_private:
        raise PartTooLong("Telegram can't show several files to one person of a group alone; nothing was sent")
    captioned = len(files) - 1 if files[0].kind in _CAPTIONS_BELOW_EACH else 0
    items = [_item(f"f{at}", file, words if at == captioned else {}) for at, file in enumerate(files)]
    return MediaUpload("sendMediaGroup", {"media": items}, {f"f{at}": file for at, file in enumerate(files)})


def replacement(files: Sequence[OutgoingFile], words: dict[str, Any]) -> MediaUpload:
    """The call that puts a file in place of what a message holds. A caption that is not given is lost.

    Raises:
        FilesRefused: a message holds one file, and no edit makes a voice message.
    """
    if len(files) != 1:
        raise FilesRefused("Telegram can put one file in place of a message, not several; nothing was sent")
    (file,) = files
    fitting = replace(file, kind="audio") if file.kind == "voice" else file
    return MediaUpload("editMessageMedia", {"media": _item("f0", fitting, words)}, {"f0": fitting})


def _item(name: str, file: OutgoingFile, words: dict[str, Any]) -> dict[str, Any]:
    return {"type": file.kind, "media": f"attach://{name}", **words}
