"""What the fake platforms are told when they start, and the clock that they go by."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from shared.core import clock


class Clock(Protocol):
    """Where the fakes take the time from; tests hand in one that they move by hand."""

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


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most *count* sends to one chat within *per_ms*; past that the platform answers 429."""

    count: int
    per_ms: int


@dataclass(frozen=True, slots=True)
class PlatformsConfig:
    """The settings of both fakes.

    Args:
        state: the folder that keeps ``platforms.db``; made if it is not there.
        telegram_webhook_url: where Telegram's updates go.
        discord_interactions_url: where Discord's interactions go.
        retry_scale: every wait before a redelivery is multiplied by this; 1.0 is the real platform's.
        answer_timeout_ms: how long Telegram waits for the answer to an update.
        deadline_ms: how long Discord waits for the first answer to an interaction.
        token_life_ms: how long an interaction's token can be used.
        telegram_flood: the limit of sends to one chat; None switches it off.
        discord_flood: the limit of requests on one route of one channel; None switches it off.
        group_privacy: Telegram's privacy mode. The real default is on; it is off here, because a bot that is to hear
            mentions needs that set-up step at @BotFather anyway.
    """

    state: Path
    telegram_webhook_url: str
    discord_interactions_url: str
    retry_scale: float = 1.0
    answer_timeout_ms: int = 60_000
    deadline_ms: int = 3_000
    token_life_ms: int = 900_000
    telegram_rate_limit: RateLimit | None = None
    discord_rate_limit: RateLimit | None = None
    group_privacy: bool = False
    clock: Clock = field(default_factory=SystemClock)
