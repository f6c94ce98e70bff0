"""Snowflakes: the ids of all objects on Discord, in order of creation.

Source: https://discord.com/developers/docs/reference#snowflakes
"""

from emulator.platforms.config import Clock
from emulator.platforms.store import PlatformStore

EPOCH_MS = 1_420_070_400_000


class Snowflakes:
    """Never gives an id twice, whatever the clock does, and across restarts."""

    def __init__(self, clock: Clock, store: PlatformStore) -> None:
        self._clock, self._store = clock, store
        self._last = int(store.get("discord.snowflake") or 0)

    def next(self) -> int:
        """A new id: milliseconds since 2015, then a counter."""
        self._last = max((self._clock.now_ms() - EPOCH_MS) << 22, self._last + 1)
        self._store.put("discord.snowflake", str(self._last))
        return self._last
