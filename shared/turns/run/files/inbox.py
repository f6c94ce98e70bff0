"""The attachments of a batch: as files in the inbox of the session where they can be had, and named in the prompt.

::

    sessions/SESSION/inbox/MESSAGE/photo.jpg

Names come from outside, so they are made safe, and two of one name get two. Archives are never opened. Nothing is lost
in silence: what could not be fetched is named with the reason.
"""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from shared.agents import prompt, session_files
from shared.agents.base import Attachment, NamedFile, Turn
from shared.agents.session_files import INBOX
from shared.core import content, logs, media_types
from shared.core.errors import NotFetched
from shared.db.queue import claims
from shared.db.queue.claims import Claim

log = logs.get()

MOST_FILES = 20  # of one message
LARGEST_BYTES = session_files.LARGEST_RECEIVED_BYTES  # of one file
MOST_BYTES = 100 * 1024 * 1024  # of the files of one turn

Fetch = Callable[[str, Mapping[str, Any], int], Awaitable[bytes]]
"""The content of an attachment, by the channel of its message, and with a limit in bytes. It raises ``NotFetched``."""


async def no_channel(_: str, __: Mapping[str, Any], ___: int) -> bytes:
    """The ``Fetch`` where no channel is at hand.

    Raises:
        NotFetched: always.
    """
    raise NotFetched("Postroom can't fetch files of this channel")


class Incoming(NamedTuple):
    """What a message of *channel* brings along: *attachments* as the channel's adapter parsed them."""

    channel: str
    message_id: str
    attachments: Sequence[Mapping[str, Any]]


class InboxFiles(NamedTuple):
    """The files of a batch: those of each message for the prompt, and those that were written."""

    named: Mapping[str, tuple[NamedFile, ...]]
    written: tuple[Attachment, ...]


async def with_files(conn: apsw.Connection, claim: Claim, turn: Turn, fetch: Fetch = no_channel) -> Turn:
    """The turn with the attachments of its batch: written, and named in the prompt."""
    found = claims.files(conn, claim)
    if not found:
        return turn
    channels = {each.message_id: each.channel for each in claim.batch}
    incoming = [Incoming(channels[message_id], message_id, content.readable_list(files)) for message_id, files in found]
    files = await receive(incoming, turn.folder, turn.session, fetch)
    messages = tuple(replace(each, files=files.named.get(each.message_id, ())) for each in turn.messages)
    return replace(
        turn,
        messages=messages,
        prompt=prompt.build(messages, timezone=turn.timezone),
        attachments=files.written,
    )


async def receive(incoming: Sequence[Incoming], folder: Path, session: str, fetch: Fetch) -> InboxFiles:
    """Write the attachments into the inbox of the session, in the agent's *folder*."""
    named: dict[str, tuple[NamedFile, ...]] = {}
    written: list[Attachment] = []
    room = MOST_BYTES
    for each in incoming:
        taken: set[str] = set()
        files = []
        for attachment in each.attachments[:MOST_FILES]:
            file = await _receive_one(each, attachment, folder, session, fetch, taken, room)
            room -= (file.size or 0) if file.path else 0
            files.append(file)
        left_out = len(each.attachments) - len(files)
        more = [NamedFile("more", f"{left_out} files", why_not=f"{MOST_FILES} is the most")] if left_out > 0 else []
        named[each.message_id] = (*files, *more)
        written += [
            Attachment(folder / file.path, file.media_type or "", file.name, each.message_id)
            for file in files
            if file.path
        ]
    return InboxFiles(named, tuple(written))


async def _receive_one(
    of: Incoming, given: Mapping[str, Any], folder: Path, session: str, fetch: Fetch, taken: set[str], room: int
) -> NamedFile:
    """Write one attachment, of at most *room* bytes."""
    kind = str(given.get("kind", "file"))
    if "file_id" not in given and "url" not in given:
        return NamedFile(kind, "", facts=_facts(given))
    name = session_files.safe_name(str(given.get("name") or kind))
    size = given.get("size") if isinstance(given.get("size"), int) else None
    try:
        fetched = await _fetch(of.channel, given, size or 0, fetch, room)
        media_type = media_types.of(fetched[: media_types.FIRST_BYTES], _said_type(given))
        name = session_files.unlike(name if given.get("name") else name + media_types.ending(media_type), taken)
        taken.add(name.lower())
        path = await asyncio.to_thread(_write, folder, session, of.message_id, name, fetched)
    except NotFetched as error:
        return NamedFile(kind, name, media_type=media_types.of(b"", _said_type(given)), size=size, why_not=str(error))
    except OSError:
        log.exception("inbox.file_not_written", session=session)
        return NamedFile(kind, name, size=size, why_not="it could not be written into the inbox")
    return NamedFile(kind, name, path, media_type, len(fetched))


async def _fetch(channel: str, given: Mapping[str, Any], size: int, fetch: Fetch, room: int) -> bytes:
    if given.get("downloadable") is False or size > LARGEST_BYTES:
        raise NotFetched(f"it is larger than {LARGEST_BYTES // 1024**2} MiB")
    if size > room or room <= 0:
        raise NotFetched(f"the files of these messages are larger than {MOST_BYTES // 1024**2} MiB together")
    fetched = await fetch(channel, given, min(LARGEST_BYTES, room))
    if len(fetched) > min(LARGEST_BYTES, room):
        raise NotFetched(f"it is larger than {LARGEST_BYTES // 1024**2} MiB")
    return fetched


def _write(folder: Path, session: str, message_id: str, name: str, fetched: bytes) -> str:
    """Write the file in place of one of an earlier attempt; its path below the agent's folder."""
    box = session_files.safe_name(message_id)
    with session_files.open_folder(folder, session, INBOX, box) as opened:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=opened)
        session_files.write_new(opened, name, fetched)
    return str((session_files.folder_of(folder, session, INBOX) / box / name).relative_to(folder))


def _facts(given: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """What an attachment says that is no file, such as a place or a poll."""
    return tuple((key, _words(value)) for key, value in given.items() if key != "kind" and key.isidentifier())


def _words(value: Any) -> str:
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)


def _said_type(given: Mapping[str, Any]) -> str | None:
    return str(given["mime"]) if given.get("mime") else None
