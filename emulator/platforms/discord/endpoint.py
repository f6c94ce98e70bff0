"""The line to an interactions endpoint: requests are signed (Ed25519 over timestamp and body), and the address is
checked before it is taken, as Discord does: a PING must be answered, and a bad signature refused.

Source: https://discord.com/developers/docs/interactions/overview#setting-up-an-endpoint
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec
from nacl.signing import SigningKey

from emulator.platforms.config import PlatformsConfig
from shared.core.errors import ConfigInvalid


@dataclass(frozen=True, slots=True)
class EndpointAnswer:
    """What came back: *payload* is None where the body is no JSON."""

    status: int
    kind: str
    body: bytes
    payload: Any


class InteractionsEndpoint:
    """Posts to the address of the configuration."""

    def __init__(self, config: PlatformsConfig, key: SigningKey) -> None:
        self._clock, self._key = config.clock, key
        self._deadline_s = config.deadline_ms / 1000
        self._session: aiohttp.ClientSession | None = None
        self.url = config.discord_interactions_url

    def start(self) -> None:
        timeout = aiohttp.ClientTimeout(total=self._deadline_s)
        self._session = aiohttp.ClientSession(timeout=timeout, auto_decompress=True)

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def post(self, body: bytes, headers: Mapping[str, str] | None = None) -> EndpointAnswer:
        """Post *body* once, signed unless *headers* say otherwise. Raises what aiohttp raises, and TimeoutError."""
        if self._session is None:
            raise RuntimeError("start() comes first")
        async with self._session.post(
            self.url, data=body, headers=headers or self.signed(body), allow_redirects=False
        ) as response:
            raw, payload = await response.read(), None
            with suppress(ValueError, RecursionError):
                payload = msgspec.json.decode(raw)
            return EndpointAnswer(response.status, response.content_type, raw, payload)

    async def check(self, ping: bytes) -> None:
        """What Discord does before it takes an address. Raises ConfigInvalid with a sentence."""
        pong = await self._probe(ping, self.signed(ping))
        if pong.status != 200 or pong.kind != "application/json" or pong.payload != {"type": 1}:
            shown = f"{pong.status} {pong.kind or 'without a type'}"
            raise ConfigInvalid(
                f"Discord refused {self.url}: a PING with a good signature was answered {shown};"
                ' it must be 200 application/json {"type":1}. Does ingest run with this DISCORD_PUBLIC_KEY?'
            )
        headers = self.signed(ping)
        first = headers["X-Signature-Ed25519"][:2]
        headers["X-Signature-Ed25519"] = ("00" if first != "00" else "11") + headers["X-Signature-Ed25519"][2:]
        refused = await self._probe(ping, headers)
        if refused.status != 401:
            raise ConfigInvalid(
                f"Discord refused {self.url}: a request with a bad signature was answered {refused.status}; it must be"
                " 401. Verify every request over its raw body before anything else."
            )

    async def _probe(self, body: bytes, headers: Mapping[str, str]) -> EndpointAnswer:
        try:
            return await self.post(body, headers)
        except (aiohttp.ClientError, OSError, TimeoutError) as problem:
            reason = "did not answer within 3 s" if isinstance(problem, TimeoutError) else "could not be reached"
            raise ConfigInvalid(
                f"Discord refused {self.url}: it {reason}. Start ingest first, or mend the address."
            ) from None

    def signed(self, body: bytes) -> dict[str, str]:
        """The headers of a request that is Discord's."""
        timestamp = str(self._clock.now_ms() // 1000)
        return {
            "Content-Type": "application/json",
            "User-Agent": "Discord-Interactions/1.0 (+https://discord.com)",
            "X-Signature-Ed25519": self._key.sign(timestamp.encode() + body).signature.hex(),
            "X-Signature-Timestamp": timestamp,
        }
