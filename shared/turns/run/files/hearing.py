"""Makes text of the voice messages of a batch, after their files are in the inbox and before the agent runs.

::

    a file in the inbox ── transcribe ──> kept in the message's row ──> in the text of the message
                               └─ fails ──> the file, and why there is no text

The words are kept beside their attachment in ``messages.files``, so that a later attempt of the turn has them already.
Whatever goes wrong costs the words alone: the agent has the file, and is told.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import apsw

from shared.agents import own_files, prompt
from shared.agents.base import NamedFile, Turn, TurnMessage
from shared.core import content, logs, media_types
from shared.core.errors import PostroomError, SoundFailed
from shared.core.text import redaction
from shared.db.queue import claims
from shared.db.queue.claims import Claim

log = logs.get()

SOUNDS = ("voice", "audio", "video_note")  # kinds of attachments
WORDS = "transcript"  # the key of an attachment
MOST_BYTES = 20 * 1024 * 1024

Transcribe = Callable[[bytes, str], Awaitable[str | None]]
"""The words of a sound of this media type; None: nothing makes text of sound here. It raises ``PostroomError``."""

KeepWords = Callable[[str, list[Any]], Awaitable[None]]
"""Keeps the attachments of the message with this id, which have their words now."""


async def with_words(
    conn: apsw.Connection, claim: Claim, turn: Turn, transcribe: Transcribe, keep: KeepWords, *, limit_s: float
) -> Turn:
    """The turn with the words of its voice messages in their texts.

    Args:
        limit_s: for all of them together.
    """
    if not any(file.kind in SOUNDS for message in turn.messages for file in message.files):
        return turn
    given = {message_id: content.readable_list(files) for message_id, files in claims.files(conn, claim)}
    listener = _Listener(turn, transcribe, keep, asyncio.get_running_loop().time() + limit_s)
    messages = [await listener.heard(each, given.get(each.message_id, [])) for each in turn.messages]
    return replace(turn, messages=tuple(messages), prompt=prompt.build(messages, timezone=turn.timezone))


class _Listener:
    def __init__(self, turn: Turn, transcribe: Transcribe, keep: KeepWords, until_s: float) -> None:
        self._turn = turn
        self._transcribe = transcribe
        self._keep = keep
        self._until_s = until_s

    async def heard(self, message: TurnMessage, given: list[Any]) -> TurnMessage:
        """The message with the words of its sounds. *given*: its attachments, as its row has them."""
        files, words = list(message.files), []
        for at, (file, attachment) in enumerate(zip(message.files, given, strict=False)):
            if file.kind not in SOUNDS or not isinstance(attachment, dict):
                continue
            try:
                said = await self._words(message.message_id, file, attachment, given)
            except SoundFailed as error:
                files[at] = replace(file, why_no_words=str(error))
                continue
            if said is not None:
                files[at] = replace(file, has_words=bool(said), why_no_words=None if said else "nothing is said in it")
                words.append(said)
        text = "\n".join(filter(None, [message.text, *words]))
        return replace(message, text=text, files=tuple(files))

    async def _words(
        self, message_id: str, file: NamedFile, attachment: dict[str, Any], given: list[Any]
    ) -> str | None:
        """The words of one file; None: there is no file, or nothing makes text of it.

        Raises:
            SoundFailed: there are none.
        """
        if isinstance(kept := attachment.get(WORDS), str):
            return kept
        if file.path is None:
            return None
        sound = await asyncio.to_thread(self._read, file.path)
        said = await self._within_limit(sound, file.media_type or media_types.UNKNOWN)
        if said is not None:
            attachment[WORDS] = said
            await self._keep(message_id, given)
        return said

    def _read(self, path: str) -> bytes:
        found = own_files.read(self._turn.folder, path, most_bytes=MOST_BYTES)
        if found is None:
            raise SoundFailed("its file can't be read")
        return found

    async def _within_limit(self, sound: bytes, media_type: str) -> str | None:
        try:
            async with asyncio.timeout_at(self._until_s):
                return await self._transcribe(sound, media_type)
        except TimeoutError:
            raise SoundFailed("it took too long") from None
        except PostroomError as error:
            reason = redaction.redact(str(error))
            log.warning("sound.not_transcribed", turn=self._turn.token, reason=reason)
            raise SoundFailed(reason) from None
        except Exception as error:  # the batch boundary: a bug here must not cost the turn
            log.exception("sound.failed", turn=self._turn.token)
            raise SoundFailed(f"Postroom failed ({type(error).__name__}); the operator's log says where") from None
