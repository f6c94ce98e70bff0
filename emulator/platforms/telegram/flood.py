"""Telegram's flood control: how many messages a bot may send to one chat, and in all.

Telegram publishes no exact numbers. These follow its FAQ: about one message a second to a person, where short bursts
pass; 20 a minute to a group; 30 a second over all. Edits count, and each message of an album.

Source: https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this
"""

from emulator.platforms import limits
from emulator.platforms.config import PlatformsConfig, RateLimit
from emulator.platforms.rate_window import RateWindow
from emulator.platforms.store import FakeChat, PlatformStore
from emulator.platforms.telegram.calls import TelegramError

PERSON = RateLimit(20, 20_000)
GROUP = RateLimit(20, 60_000)
ALL = RateLimit(30, 1000)


class FloodControl:
    """Counts the messages of one bot, in memory."""

    def __init__(self, config: PlatformsConfig, store: PlatformStore) -> None:
        self._config, self._store, self._recent = config, store, RateWindow()

    def take(self, chat: FakeChat, count: int = 1) -> None:
        """Count *count* messages to *chat*. Raises 429, which counts none, where they do not fit."""
        given = self._config.rate_limits.get("telegram")
        one = given or (PERSON if chat.kind == "private" else GROUP)
        if given is None and not limits.are_on(self._config, self._store):
            return
        for key, limit in ((chat.id, one), ("all", ALL)):
            wait_ms = self._recent.wait_ms(key, limit, count, now_ms=self._config.clock.now_ms())
            if wait_ms:
                wait_s = max(1, -(-wait_ms // 1000))
                raise TelegramError(429, f"Too Many Requests: retry after {wait_s}", retry_after=wait_s)
        for _ in range(count):
            self._recent.take(chat.id, one, now_ms=self._config.clock.now_ms())
            self._recent.take("all", ALL, now_ms=self._config.clock.now_ms())
