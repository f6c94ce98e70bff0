"""What makes text of sound, or sound of text: the settings ``transcriber`` and ``speaker``.

::

    openai/whisper-1          a model of a host that the gateway knows: ``openai``, ``local`` or ``speech``
    openai/tts-1#nova         the same, with a voice
    whisper-cli -f {sound}    a program with its arguments; ``{sound}`` is the file with the sound
    none                      nothing, whatever the environment names
"""

import re
import shlex
from typing import NamedTuple

HOSTS = ("openai", "local", "speech")
NONE = "none"
SOUND = "{sound}"

_MODEL = re.compile(rf"(?P<host>{'|'.join(HOSTS)})/(?P<model>[^\s#]{{1,200}})(?:#(?P<voice>[^\s#]{{1,100}}))?")


class SoundModel(NamedTuple):
    """A model of a host. *voice*: that speaks; None: the host's own choice."""

    host: str
    model: str
    voice: str | None = None


class SoundProgram(NamedTuple):
    """A program and its arguments."""

    words: tuple[str, ...]


SoundMaker = SoundModel | SoundProgram


def read(setting: str | None) -> SoundMaker | None:
    """What the setting names; None: nothing.

    Raises:
        ValueError: it can't be read; the message says why.
    """
    if setting in (None, "", NONE):
        return None
    found = _MODEL.fullmatch(setting or "")
    if found is not None:
        return SoundModel(found["host"], found["model"], found["voice"])
    try:
        words = tuple(shlex.split(setting or ""))
    except ValueError as error:
        raise ValueError(f"as a command it can't be split into words: {error}") from None
    if not words or words[0].startswith(tuple(f"{host}/" for host in HOSTS)):
        raise ValueError(f"write HOST/MODEL with one of the hosts {', '.join(HOSTS)}, a command, or {NONE!r}")
    return SoundProgram(words)


def checked_transcriber(setting: str | None) -> str | None:
    """*setting*, if it can make text of sound.

    Raises:
        ValueError: it can't; the message says why.
    """
    maker = read(setting)
    if isinstance(maker, SoundProgram) and not any(SOUND in word for word in maker.words):
        raise ValueError(f"the command must name the file with the sound by {SOUND}, such as 'whisper-cli -f {SOUND}'")
    return setting


def checked_speaker(setting: str | None) -> str | None:
    """*setting*, if it can make sound of text: a program gets the text on its input, and writes the sound.

    Raises:
        ValueError: it can't; the message says why.
    """
    read(setting)
    return setting
