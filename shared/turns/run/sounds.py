"""Makes text of sound, and sound of text, for an agent: by the model or program that its row or the operator names."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from shared.agents.programs.limits import Limits
from shared.core import media_types, sound_makers
from shared.core.errors import SoundFailed
from shared.core.settings import Settings
from shared.core.sound_makers import SoundMaker, SoundModel
from shared.db.engine import owner_only
from shared.db.roster.agents import Agent
from shared.db.spending.usage import TurnName
from shared.turns.gateway.model_gateway import ModelGateway

T = TypeVar("T")

_PAUSES_S = (1.0, 4.0)  # between attempts: the turn waits
_TEXT_BYTES, _SOUND_BYTES = 1024 * 1024, 20 * 1024 * 1024  # of what a program writes


class SoundMakers:
    """For the turns of one dispatch."""

    def __init__(self, gateway: ModelGateway, settings: Settings) -> None:
        self._gateway = gateway
        self._settings = settings

    async def transcribe(self, agent: Agent, name: TurnName, sound: bytes, media_type: str) -> str | None:
        """The words of *sound*; None: nothing is named that makes text of sound.

        Raises:
            SoundFailed, ConfigInvalid: there are none.
        """
        maker = _maker(agent.transcriber or self._settings.transcriber)
        if maker is None:
            return None
        file = f"sound{media_types.ending(media_type)}"
        if isinstance(maker, SoundModel):
            models = self._gateway.sound()
            return await self._patiently(lambda: models.transcribe(name, maker, sound, file, media_type))
        written = await self._run(maker.words, agent, name, _TEXT_BYTES, sound=(file, sound))
        return written.decode("utf-8", "replace").strip()

    async def speak(self, agent: Agent, name: TurnName, text: str) -> bytes | None:
        """*text* as sound; None: nothing is named that speaks.

        Raises:
            SoundFailed, ConfigInvalid: there is none.
        """
        maker = _maker(agent.speaker or self._settings.speaker)
        if maker is None:
            return None
        if isinstance(maker, SoundModel):
            models = self._gateway.sound()
            sound = await self._patiently(lambda: models.speak(name, maker, text))
        else:
            sound = await self._run(maker.words, agent, name, _SOUND_BYTES, given=text.encode())
        if not (media_types.of_content(sound[: media_types.FIRST_BYTES]) or "").startswith("audio/"):
            raise SoundFailed("what speaks gave no sound that Postroom knows: Ogg, MP3, M4A or WAV")
        return sound

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        for pause_s in _PAUSES_S:
            try:
                return await ask()
            except SoundFailed as error:
                if not error.is_brief:
                    raise
                await asyncio.sleep(pause_s)
        return await ask()

    async def _run(
        self,
        words: Sequence[str],
        agent: Agent,
        name: TurnName,
        most_bytes: int,
        *,
        given: bytes = b"",
        sound: tuple[str, bytes] | None = None,
    ) -> bytes:
        from shared.agents import sound_program  # most dispatches run none: it brings along all that runs programs

        settings = self._settings
        owner_only.make_folder(settings.files)
        tool_ms = agent.tool_timeout_ms or settings.tool_timeout_ms
        limits = Limits(
            idle_ms=2 * tool_ms,  # it may say nothing until its end
            tool_ms=tool_ms,
            output_bytes=most_bytes,
            memory_bytes=(agent.memory_limit_mb or settings.memory_limit_mb) * 1024**2,
            disk_bytes=(agent.disk_limit_mb or settings.disk_limit_mb) * 1024**2,
            agent=agent.id,
        )
        private = (settings.db, settings.sockets, settings.files, settings.agents_dir)
        return await sound_program.run(
            words,
            settings.files.absolute(),
            given=given,
            sound=sound,
            token=name.turn,
            limits=limits,
            leash=settings.leash,
            private=private,
        )


def _maker(setting: str | None) -> SoundMaker | None:
    """What the setting names.

    Raises:
        SoundFailed: it can't be read; a row of an earlier release may hold anything.
    """
    try:
        return sound_makers.read(setting)
    except ValueError as error:
        raise SoundFailed(str(error)) from None
