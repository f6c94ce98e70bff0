"""Calls the interactions endpoint, with requests signed by Ed25519 over timestamp and body.

It checks an address before it accepts it, as Discord does: the endpoint must answer a PING and refuse a bad signature.

Source: https://discord.com/developers/docs/interactions/overview#setting-up-an-endpoint
"""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import aiohttp
import msgspec
from nacl.signing import SigningKey

from emulator.platforms.config import PlatformsConfig
from emulator.platforms.record.request_log import RequestLog, read_body
from shared.core.errors import ConfigInvalid

PING = 1
_KINDS: Mapping[int, str] = {3: "press", 4: "choices", 5: "modal"}  # by the type of an interaction


class EndpointAnswer(msgspec.Struct, frozen=True):
    """The endpoint's answer; *payload* is None where the body is not JSON."""

    status: int
    kind: str
    body: bytes
    payload: Any


class InteractionsEndpoint:
    """Posts to the configured address."""

    def __init__(self, config: PlatformsConfig, key: SigningKey, requests: RequestLog) -> None:
        self._clock, self._key, self._requests = config.clock, key, requests
        self._deadline_s = config.deadline_ms / 1000
        self._session: aiohttp.ClientSession | None = None
        self.url: str | None = config.webhook_urls["discord"]

    def start(self) -> None:
        timeout = aiohttp.ClientTimeout(total=self._deadline_s)
        self._session = aiohttp.ClientSession(timeout=timeout, auto_decompress=True)

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def post(self, body: bytes, headers: Mapping[str, str] | None = None) -> EndpointAnswer:
        """Post *body* once, signed unless *headers* replace the signature. Raises aiohttp's errors and TimeoutError."""
        started, answer = time.perf_counter(), None
        error: str | None = "no answer in time"
        try:
            answer = await self._post(body, headers or self.signed(body))
            error = None if answer.status < 400 else f"the endpoint answered {answer.status}"
            return answer
        except (aiohttp.ClientError, OSError) as problem:
            error = str(problem) or type(problem).__name__
            raise
        finally:
            if (sent := json.loads(body))["type"] != PING:  # a check of the address is no webhook of a person
                self._log(sent, answer, error, (time.perf_counter() - started) * 1000)

    def _log(self, sent: Mapping[str, Any], answer: EndpointAnswer | None, error: str | None, took_ms: float) -> None:
        self._requests.add_webhook(
            "discord",
            at_ms=self._clock.now_ms(),
            kind=_KINDS.get(sent["type"], "interaction"),
            ref=sent["id"],
            chat=sent.get("channel_id"),
            body=sent,
            status=answer.status if answer else None,
            answer=read_body(answer.body) if answer else None,
            error=error,
            took_ms=took_ms,
        )

    async def _post(self, body: bytes, headers: Mapping[str, str]) -> EndpointAnswer:
        if self._session is None or self.url is None:
            raise RuntimeError("call start() first, and name an address")
        async with self._session.post(self.url, data=body, headers=headers, allow_redirects=False) as response:
            raw, payload = await response.read(), None
            with suppress(ValueError, RecursionError):
                payload = msgspec.json.decode(raw)
            return EndpointAnswer(response.status, response.content_type, raw, payload)

    async def check(self, ping: bytes) -> None:
        """Discord's check before it accepts an address. Raises ConfigInvalid, whose message says what failed."""
        pong = await self._probe(ping, self.signed(ping))
        if pong.status != 200 or pong.kind != "application/json" or pong.payload != {"type": 1}:
            shown = f"{pong.status} {pong.kind or 'without a type'}"
            raise ConfigInvalid(
                f"Discord refused {self.url}: the endpoint answered {shown} to a PING with a valid signature, instead"
                ' of 200 application/json {"type":1}. Check that ingest runs with this DISCORD_PUBLIC_KEY.'
            )
        headers = self.signed(ping)
        first = headers["X-Signature-Ed25519"][:2]
        headers["X-Signature-Ed25519"] = ("00" if first != "00" else "11") + headers["X-Signature-Ed25519"][2:]
        refused = await self._probe(ping, headers)
        if refused.status != 401:
            raise ConfigInvalid(
                f"Discord refused {self.url}: the endpoint answered {refused.status} to a request with a bad signature,"
                " instead of 401. Verify the raw body of every request first."
            )

    async def _probe(self, body: bytes, headers: Mapping[str, str]) -> EndpointAnswer:
        try:
            return await self.post(body, headers)
        except (aiohttp.ClientError, OSError, TimeoutError) as problem:
            reason = "did not answer within 3 s" if isinstance(problem, TimeoutError) else "could not be reached"
            raise ConfigInvalid(
                f"Discord refused {self.url}: the endpoint {reason}. Start ingest first, or correct the address."
            ) from None

    def signed(self, body: bytes) -> dict[str, str]:
        """The headers of a genuine request from Discord."""
        timestamp = str(self._clock.now_ms() // 1000)
        return {
            "Content-Type": "application/json",
            "User-Agent": "Discord-Interactions/1.0 (+https://discord.com)",
            "X-Signature-Ed25519": self._key.sign(timestamp.encode() + body).signature.hex(),
            "X-Signature-Timestamp": timestamp,
        }
