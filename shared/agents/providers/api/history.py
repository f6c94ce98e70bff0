"""What the model of a session is given again: the messages of its turns, in a file of the agent's folder.

The continuation is the name of the file. Each turn writes a new file and gives its name before its result, so that the
rows decide which history counts: a turn that is killed leaves that of the turn before. Older files are deleted then.
A file that is missing, or can't be read, means that the session is lost; it begins anew from ``agent_messages``.
"""

import contextlib
import json
import re
from pathlib import Path
from typing import Any

from shared.agents import own_files
from shared.core import chance
from shared.core.errors import ConfigInvalid

_FORM = re.compile(r"api-[0-9a-f]{24}")
_LARGEST_BYTES = 50_000_000

Messages = list[dict[str, Any]]
"""As pydantic-ai writes them: objects with ``kind`` (``request`` or ``response``) and ``parts``."""


class HistoryLost(Exception):
    """The file of the continuation is not there, or is damaged."""


def load(agent_folder: Path, session: str, continuation: str) -> bytes:
    """The messages as JSON.

    Raises:
        HistoryLost: see there.
    """
    if not _FORM.fullmatch(continuation):
        raise HistoryLost("the continuation is not of this provider")
    found = own_files.read(agent_folder, f"{_place(session)}/{continuation}.json", most_bytes=_LARGEST_BYTES)
    if found is None:
        raise HistoryLost("its history can't be read: it is gone, too large or no plain file")
    try:
        is_list = isinstance(json.loads(found), list)
    except (ValueError, RecursionError):
        is_list = False
    if not is_list:
        raise HistoryLost("its history is damaged")
    return found


def save(agent_folder: Path, session: str, messages: bytes, *, most_bytes: int, before: str | None) -> str:
    """Write the messages into a new file, without the oldest turns where they are too many; the continuation.

    Args:
        messages: all of the session, as JSON.
        before: the continuation that the turn went on with; its file stays until the next turn.

    Raises:
        ConfigInvalid: a link stands in the place of the folder.
        OSError: the file can't be written.
    """
    name = f"api-{chance.token_hex(12)}"
    text = json.dumps(bounded(json.loads(messages), most_bytes), ensure_ascii=False)
    path = own_files.write(agent_folder, f"{_place(session)}/{name}.json", text)
    for other in path.parent.glob("api-*.json"):
        if other.stem not in (name, before):
            with contextlib.suppress(OSError):
                other.unlink()
    return name


def bounded(messages: Messages, most_bytes: int) -> Messages:
    """The newest whole turns that fit, without files; at least the last turn. Pure."""
    turns: list[Messages] = []
    for message in messages:
        without_files = {**message, "parts": [_without_files(part) for part in message.get("parts", [])]}
        if _begins_turn(message) or not turns:
            turns.append([])
        turns[-1].append(without_files)
    kept: list[Messages] = []
    room = most_bytes
    for turn in reversed(turns):
        room -= len(json.dumps(turn, ensure_ascii=False).encode())
        if kept and room < 0:
            break
        kept.append(turn)
    return [message for turn in reversed(kept) for message in turn]


def _begins_turn(message: dict[str, Any]) -> bool:
    """What a person wrote beside the results of tools was told to a turn that ran."""
    kinds = {part.get("part_kind") for part in message.get("parts", [])}
    return "user-prompt" in kinds and not kinds & {"tool-return", "retry-prompt"}


def _without_files(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("part_kind") != "user-prompt" or not isinstance(part.get("content"), list):
        return part
    return {**part, "content": [each for each in part["content"] if isinstance(each, str)]}


def _place(session: str) -> str:
    if not re.fullmatch(r"[a-z0-9_]+", session):
        raise ConfigInvalid("the session's id is no name of a folder")
    return f"sessions/{session}/api"
