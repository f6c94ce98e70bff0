"""A message as its sender changed it: a piece of an album that is edited or deleted takes its own files along.

Pure functions.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shared.channels.base import Event
from shared.core import content
from shared.core.content import MessagePiece
from shared.db.roster.wirings import WiredChat, Wiring
from shared.db.views.originals import Original


def edited(event: Event, pieces: Sequence[MessagePiece], files: Sequence[dict[str, Any]]) -> Event:
    """The whole message of which *event* edits one piece; the edit itself where the message is no album.

    Args:
        pieces: of the album, as they were.
        files: of the whole album.
    """
    new: MessagePiece = {
        "message_id": event.platform_message_id or "",
        "text": event.text,
        "files": len(event.attachments),
    }
    return _with(event, pieces, files, new, event.attachments)


def without(event: Event, pieces: Sequence[MessagePiece], files: Sequence[dict[str, Any]]) -> Event | None:
    """The rest of an album without the piece that *event* deletes; None: nothing is left, or it was no album."""
    if all(each["message_id"] == event.platform_message_id for each in pieces):
        return None
    return _with(event, pieces, files, None, ())


def _with(
    event: Event,
    pieces: Sequence[MessagePiece],
    files: Sequence[dict[str, Any]],
    new: MessagePiece | None,
    new_files: Sequence[dict[str, Any]],
) -> Event:
    if not any(each["message_id"] == event.platform_message_id for each in pieces):
        return replace(event, group_key=None)
    kept: list[MessagePiece] = []
    kept_files: list[dict[str, Any]] = []
    at = 0
    for each in pieces:
        own = files[at : at + each["files"]]
        at += each["files"]
        if each["message_id"] != event.platform_message_id:
            kept.append(each)
            kept_files.extend(own)
        elif new is not None:
            kept.append(new)
            kept_files.extend(new_files)
    speaks_first = next((each for each in kept if each["text"]), None) is new and new is not None
    return replace(
        event,
        platform_message_id=pieces[0]["message_id"],
        text="\n".join(each["text"] for each in kept if each["text"]),
        attachments=tuple(kept_files),
        pieces=tuple(kept),
        mention=event.mention if speaks_first else "",
        command=event.command if speaks_first else None,
        command_args=event.command_args if speaks_first else None,
        group_key=None,
    )


def parts_of(mine: Sequence[Original]) -> tuple[Sequence[MessagePiece], Sequence[dict[str, Any]]]:
    """The pieces and the files of an agent's newest message of an album; of any other message: nothing.

    Args:
        mine: newest first.
    """
    pieces = mine[0].content.get("pieces", []) if mine else []
    return (pieces, content.readable_list(mine[0].files)) if pieces else ((), ())


GONE = 0
"""The id of what stands in place of a wiring that was deleted."""


def wirings_of(wired_chat: WiredChat | None, given: Sequence[Original]) -> list[Wiring]:
    """The wirings of the chat, and one in place of each that was deleted while its agent had the message still to read.

    A turn of that agent has it or may take it, so it must know what the sender changed. An edit does not address it.
    """
    if wired_chat is None:
        return []
    wired = {each.agent: each for each in wired_chat.wirings}
    for each in given:
        if (each.waits or each.status == "processing") and each.agent not in wired:
            wired[each.agent] = Wiring(GONE, wired_chat.chat.id, each.agent, 0, session_mode=each.session_mode)
    return list(wired.values())


def is_same(original: Original, text: str, files: Sequence[dict[str, Any]]) -> bool:
    """Whether a person sees no difference to what the agent was given."""
    before = content.readable_list(original.files)
    return original.message == text and [_seen(each) for each in before] == [_seen(each) for each in files]


def _seen(file: Any) -> Any:
    """What tells one file from another: signatures in addresses change by themselves, and a transcript is ours."""
    if not isinstance(file, dict):
        return file
    seen = {name: value for name, value in file.items() if name != "transcript"}
    return seen | ({"url": str(seen["url"]).partition("?")[0]} if "url" in seen else {})
