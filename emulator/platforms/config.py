"""The settings of the fake platforms, and their clock."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec

from emulator.base.door import Door
from emulator.base.faults import Faults
from shared.core.time import clock


class Clock(Protocol):
    """The fakes' source of time. Tests pass one that they set by hand."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        ...

    async def sleep(self, ms: int) -> None:
        """Return when *ms* have passed on this clock."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return clock.now_ms()

    async def sleep(self, ms: int) -> None:
        await asyncio.sleep(ms / 1000)


class RateLimit(msgspec.Struct, frozen=True):
    """At most *count* sends to one chat within *per_ms*; beyond that the platform answers 429."""

    count: int
    per_ms: int


async def _nothing() -> Sequence[str]:
    return ()


async def _unknown(account: str, chat: str, message: str) -> None:
    return None


async def _prepare_nothing(target: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class PlatformsConfig:
    """The settings of all fakes.

    Args:
        state: the folder of ``platforms.db``; created if missing.
        webhook_urls: by platform, the address that receives what it sends.
        door: who may use the control API and the chat page.
        retry_scale: multiplies every wait before a redelivery; 1.0 is the real platform's.
        answer_timeout_ms: Telegram's limit for the answer to an update.
        deadline_ms: Discord's limit for the first answer to an interaction.
        token_life_ms: the life of an interaction's token.
        limits: flood control and rate limits are on, as the real ones always are.
        rate_limits: by platform, of sends to one chat, or of requests on one route of it, in place of its own.
        group_privacy: Telegram's privacy mode. The real default is on. It is off here, because a bot that is to hear
            mentions needs that setting at @BotFather in any case.
        account_tokens: the file that gets the tokens of further accounts; None: none gets them.
        heartbeat_ms: the interval of the Gateway's heartbeats.
        session_starts: how often an app may identify at the Gateway in a day.
        privileged_intents: those that are switched on for the app; the real default is none.
        unwell: what Postroom says of its health, a sentence each; the chat page shows it.
        why: called with an account, a chat's id there and a message's or an interaction's; ``state``, ``reason`` and
            ``until`` of why it has no answer, or None where nothing is known.
        registered: called with an account and the address that was registered for it.
        before_fault: called with the target of a fault before it is added.
        faults: those of the whole emulator, by target; where there are none of a platform, the fake has its own.
    """

    state: Path
    webhook_urls: Mapping[str, str]
    door: Door
    retry_scale: float = 1.0
    answer_timeout_ms: int = 60_000
    deadline_ms: int = 3_000
    token_life_ms: int = 900_000
    limits: bool = True
    rate_limits: Mapping[str, RateLimit] = field(default_factory=dict)
    group_privacy: bool = False
    account_tokens: Path | None = None
    heartbeat_ms: int = 41_250
    session_starts: int = 1000
    privileged_intents: int = 0
    unwell: Callable[[], Awaitable[Sequence[str]]] = _nothing
    why: Callable[[str, str, str], Awaitable[Mapping[str, Any] | None]] = _unknown
    registered: Callable[[str, str], None] = lambda account, url: None
    before_fault: Callable[[str], Awaitable[None]] = _prepare_nothing
    clock: Clock = field(default_factory=SystemClock)
    faults: Mapping[str, Faults] = field(default_factory=dict)
