"""Runs the operator's program that makes text of sound, or sound of text: on the leash, in a folder of its own.

The program sees the system, the files that its command names by their whole path, and the one sound. It sees no agent,
no session and no network, and ends with the turn.
"""

import asyncio
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from shared.agents import leftover_processes
from shared.agents.programs import containment
from shared.agents.programs.containment import LeashPolicy, ProgramCommand
from shared.agents.programs.limits import Limits
from shared.agents.programs.run import ProgramRun
from shared.core.errors import SoundFailed
from shared.core.sound_makers import SOUND

_PASSED_ON = ("PATH", "LANG", "TZ")


async def run(
    words: Sequence[str],
    folder: Path,
    *,
    given: bytes = b"",
    sound: tuple[str, bytes] | None = None,
    token: str,
    limits: Limits,
    leash: LeashPolicy,
    private: Sequence[Path],
) -> bytes:
    """What the program writes to its standard output.

    Args:
        folder: absolute, and exists; the program's own folder is made there, and removed again.
        given: its standard input.
        sound: the name and the content of the file that stands for ``{sound}``.
        token: of the turn, with which it ends.
        private: what it may never see.

    Raises:
        SoundFailed: it can't be started, fails, takes longer than ``limits.tool_ms``, or writes too much.
        ConfigInvalid: a leash is required, and there is none.
    """
    held = await containment.found(leash)
    with tempfile.TemporaryDirectory(prefix="sound-", dir=folder, ignore_cleanup_errors=True) as own:
        place = Path(own)
        if sound is not None:
            await asyncio.to_thread((place / sound[0]).write_bytes, sound[1])
            words = [word.replace(SOUND, sound[0]) for word in words]
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        environment |= {"HOME": str(place), leftover_processes.MARK: token}
        shown = containment.readable_paths(words, (), environment, private)
        command = ProgramCommand(words, place, environment, shown)
        limit_s, written = limits.tool_ms / 1000, bytearray()
        try:
            async with (
                asyncio.timeout(limit_s),
                ProgramRun(command, limits, held, line_limit=limits.output_bytes) as running,
            ):
                feeding = asyncio.create_task(running.write(given, close=True))
                try:
                    async for line in running.lines():
                        written += line
                finally:
                    feeding.cancel()
                ending = running.ending
        except TimeoutError:
            raise SoundFailed(f"{words[0]} took longer than {limit_s:g} s") from None
        except OSError as error:
            raise SoundFailed(f"{words[0]} can't be started: {error.strerror}") from None
    if ending is None or ending.word != "ended":
        raise SoundFailed(f"{words[0]}: {ending.reason if ending else 'it was stopped'}")
    return bytes(written)
