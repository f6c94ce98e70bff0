"""An answer as parts that one message of Discord can hold, and the body that sends such a part. Pure.

Source: https://docs.discord.com/developers/resources/message#create-message,
https://docs.discord.com/developers/reference#uploading-files.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from shared.channels import multipart, sanitize
from shared.channels.base import OutgoingFile, Part
from shared.channels.markdown.source import split_source, tables_as_code
from shared.channels.multipart import Form

PART_UNITS = 1900  # Discord's limit is 2000
MOST_FILES = 10

_REQUEST_BYTES = 24 * 1024 * 1024  # Discord's limit is 25 MiB, with the text


def render(text: str, files: Sequence[OutgoingFile] = ()) -> tuple[Part, ...]:
    """See ``Channel.render``. Discord renders Markdown itself: only tables are redrawn and long texts cut."""
    source = tables_as_code(sanitize.text(text.replace("\r\n", "\n")))
    texts = list(split_source(source, PART_UNITS))
    albums = list(_albums(files))
    caption = texts.pop() if albums and len(texts) == 1 else ""
    shown = [Part(caption if index == 0 else "", files=album) for index, album in enumerate(albums)]
    return (*(Part(piece) for piece in texts), *shown)


def _albums(files: Sequence[OutgoingFile]) -> Iterator[tuple[OutgoingFile, ...]]:
    """The files in their order, as many together as one request may hold."""
    album: list[OutgoingFile] = []
    for file in files:
        size = sum(each.size for each in album) + file.size
        if album and (len(album) == MOST_FILES or size > _REQUEST_BYTES):
            yield tuple(album)
            album = []
        album.append(file)
    if album:
        yield tuple(album)


def body(part: Part, fields: dict[str, Any]) -> dict[str, Any] | Form:
    """The body of a call that sends *part*, with the other *fields* of the message. A poll stands alone."""
    if "poll" in fields:
        return fields
    if not part.files:
        return {"content": part.text, **fields}
    named = [multipart.safe_name(file.name) for file in part.files]
    attachments = [{"id": str(index), "filename": name} for index, name in enumerate(named)]
    message = {"content": part.text, "attachments": attachments, **fields}
    uploads = {f"files[{index}]": file for index, file in enumerate(part.files)}
    return Form({"payload_json": message}, uploads)
