"""Requests to models that make text of sound, or sound of text, in OpenAI's form: by the budgets, as all others.

A budget counts tokens: of a model that counts the time of a sound, a second is a token of its input; of one that
speaks, a character is.

Source: https://platform.openai.com/docs/api-reference/audio
"""

import asyncio
import json
import math
from collections.abc import Mapping
from typing import Any

from shared.core import chance, logs
from shared.core.errors import SoundFailed
from shared.core.sound_makers import SoundModel
from shared.core.text import redaction
from shared.core.time import clock
from shared.db.spending.usage import Tokens, TurnName
from shared.runtime.http1_client import HttpClient, whole
from shared.runtime.http_client import NoAnswer, RequestNotSent
from shared.turns.gateway.dialects import MOST_TOKENS, parsed, part
from shared.turns.gateway.ledger import Estimate, Ledger, UnderWay
from shared.turns.gateway.upstreams import GatewaySettings, ModelUpstream, sound_host, why_no_sound

log = logs.get()

_LIMIT_S = 120.0  # of one request, whatever it makes
MOST_SOUND_BYTES = 20 * 1024 * 1024
_MOST_TEXT_BYTES = 1024 * 1024
_LIKELY, _FEWEST = 3000, 1000  # bytes of a second of speech
_SHOWN = 200  # characters of what a host says


class SoundModels:
    """Asks the hosts that *settings* name, and writes what that cost into *ledger*."""

    def __init__(self, settings: GatewaySettings, ledger: Ledger) -> None:
        self._settings = settings
        self._ledger = ledger
        self._hosts = HttpClient(answer_limit_s=_LIMIT_S)

    async def close(self) -> None:
        """Close the connections to the hosts."""
        await self._hosts.close()

    async def transcribe(self, name: TurnName, model: SoundModel, sound: bytes, file: str, media_type: str) -> str:
        """The words of *sound*.

        Args:
            file: its safe name: hosts tell the format by its ending.

        Raises:
            SoundFailed: there are none.
        """
        seconds = Tokens(len(sound) // _LIKELY + 1)
        estimate = Estimate(seconds, Tokens(len(sound) // _FEWEST + 1))
        body, kind = _form({"model": model.model, "response_format": "json"}, file, media_type, sound)
        answer = await self._ask(name, model, "/audio/transcriptions", body, kind, estimate, _MOST_TEXT_BYTES)
        text = parsed(answer).get("text")
        if not isinstance(text, str):
            raise SoundFailed(f"the answer of {model.host} has no text in it")
        return text.strip()

    async def speak(self, name: TurnName, model: SoundModel, text: str) -> bytes:
        """*text* as sound, in the form of a voice message (Opus).

        Raises:
            SoundFailed: there is none.
        """
        characters = Tokens(len(text))
        wanted = {"model": model.model, "input": text, "voice": model.voice or "alloy", "response_format": "opus"}
        estimate, kind = Estimate(characters, characters), b"application/json"
        body = json.dumps(wanted).encode()
        return await self._ask(name, model, "/audio/speech", body, kind, estimate, MOST_SOUND_BYTES)

    async def _ask(
        self,
        name: TurnName,
        model: SoundModel,
        path: str,
        body: bytes,
        kind: bytes,
        estimate: Estimate,
        most_bytes: int,
    ) -> bytes:
        host = sound_host(self._settings, model.host)
        if host is None:
            raise SoundFailed(why_no_sound(self._settings, model.host) or "")
        begun = await self._ledger.begin(name, model.model, host.paid_by, estimate, now_ms=clock.now_ms())
        if not isinstance(begun, UnderWay):
            raise SoundFailed(begun.sentence)
        used: Tokens | None = begun.usual  # what is not known may have been paid for
        try:
            status, answer = await self._answer(host, path, body, kind, most_bytes)
            used = None if status >= 400 else _tokens(parsed(answer), begun.usual)
        except RequestNotSent as error:
            used = None
            raise SoundFailed(f"{model.host} can't be reached ({error})", is_brief=True) from None
        except NoAnswer as error:
            raise SoundFailed(f"{model.host} gave no whole answer ({error})", is_brief=True) from None
        except TimeoutError:
            raise SoundFailed(f"{model.host} did not answer within {_LIMIT_S:g} s") from None
        finally:
            await self._ledger.write_used(begun, used, now_ms=clock.now_ms())
        if status >= 400:
            is_brief = status == 429 or status >= 500
            raise SoundFailed(f"{model.host} refused it ({status}: {_said(answer)})", is_brief=is_brief)
        return answer

    async def _answer(
        self, host: ModelUpstream, path: str, body: bytes, kind: bytes, most_bytes: int
    ) -> tuple[int, bytes]:
        headers = [(b"content-type", kind), (b"accept-encoding", b"identity"), *host.auth]
        async with asyncio.timeout(_LIMIT_S):
            async with self._hosts.stream("POST", host.base_url + path, body, headers, silence_s=_LIMIT_S) as answer:
                return answer.status, await whole(answer, most_bytes)


def _tokens(answer: Mapping[str, Any], usual: Tokens) -> Tokens:
    """What the host counted: tokens, or the seconds of the sound; *usual* where it says neither."""
    counts = part(answer, "usage")
    if counts.get("type") == "duration":
        return Tokens(math.ceil(_number(counts, "seconds")))
    if counts:
        return Tokens(int(_number(counts, "input_tokens")), int(_number(counts, "output_tokens")))
    seconds = _number(answer, "duration")
    return Tokens(math.ceil(seconds)) if seconds else usual


def _number(counts: Mapping[str, Any], name: str) -> float:
    found = counts.get(name)
    is_count = isinstance(found, int | float) and not isinstance(found, bool) and 0 <= found <= MOST_TOKENS
    return float(found) if is_count and found is not None else 0.0


def _said(answer: bytes) -> str:
    """The host's own words about an error, on one line."""
    error = parsed(answer).get("error")
    said = error.get("message") if isinstance(error, dict) else error
    words = " ".join(str(said or answer[: 4 * _SHOWN].decode("utf-8", "replace")).split())
    return redaction.redact(words)[:_SHOWN] or "no message"


def _form(fields: Mapping[str, str], file: str, media_type: str, content: bytes) -> tuple[bytes, bytes]:
    """A multipart body with one file, and its content type. Source: RFC 7578."""
    boundary = f"postroom-{chance.token_hex(16)}"
    head = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    )
    named = file.replace('"', "_")
    head += f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{named}"\r\n'
    head += f"Content-Type: {media_type}\r\n\r\n"
    body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
    return body, f"multipart/form-data; boundary={boundary}".encode()
