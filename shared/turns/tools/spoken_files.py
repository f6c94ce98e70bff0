"""What a tool's call brings along, made before its transaction: a copy out of the outbox, or a text as sound."""

import asyncio
from pathlib import Path
from typing import NamedTuple

from shared.agents import session_files
from shared.channels import outgoing_files
from shared.channels.base import OutgoingFile
from shared.core import logs, media_types
from shared.core.errors import PostroomError
from shared.core.text import redaction
from shared.db.roster.agents import Agent
from shared.turns.tools import outbox_files
from shared.turns.tools.base import Speak, SpokenText

log = logs.get()

_VOICES = ("audio/ogg", "audio/mpeg", "audio/mp4")  # what platforms play as a voice message
_NOBODY = "nothing speaks for you here (the operator sets a speaker)"


class Brought(NamedTuple):
    """The file, or why there is no sound, as a part of a sentence."""

    file: OutgoingFile | None = None
    why_no_sound: str = ""


NOTHING = Brought()


async def make(spoken: SpokenText, speak: Speak | None, agent: Agent, target: Path) -> Brought:
    """The text as a file of sound in the folder *target*. What goes wrong costs the sound alone."""
    if not spoken.taker.takes_files:
        return Brought(why_no_sound="no files can be sent there")
    try:
        sound = await speak(agent, spoken.text) if speak is not None else None
    except PostroomError as error:
        reason = redaction.redact(str(error))
        log.warning("sound.not_spoken", agent=agent.id, reason=reason)
        return Brought(why_no_sound=reason)
    if sound is None:
        return Brought(why_no_sound=_NOBODY)
    file = await asyncio.to_thread(_write, sound, target)
    limits = spoken.taker.limits
    problem = None if limits is None else outgoing_files.too_large(file.size, file.kind, limits)
    if problem is not None:
        outbox_files.discard(file)
        return Brought(why_no_sound=problem)
    return Brought(file)


def _write(sound: bytes, target: Path) -> OutgoingFile:
    media_type = media_types.of(sound[: media_types.FIRST_BYTES], None)
    path = session_files.new_file(target, f"voice{media_types.ending(media_type)}", sound)
    return outgoing_files.described(path, kind="voice" if media_type in _VOICES else None)
