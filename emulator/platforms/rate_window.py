"""A sliding window that counts events per key, for the rate limits of both platforms."""

from collections import defaultdict, deque

import msgspec

from emulator.platforms.config import RateLimit


class RateStatus(msgspec.Struct, frozen=True):
    """Whether the event exceeds the limit, how many more fit, and in how many ms the oldest one leaves the window."""

    is_over: bool
    left: int
    opens_ms: int


class RateWindow(msgspec.Struct):
    """The instants of recent events by key, in memory: a restart clears them."""

    _at_ms: dict[str, deque[int]] = msgspec.field(default_factory=lambda: defaultdict(deque))

    def take(self, key: str, limit: RateLimit, *, now_ms: int) -> RateStatus:
        """Count one more event of *key*, if it fits."""
        recent = self._at_ms[key]
        while recent and recent[0] <= now_ms - limit.per_ms:
            recent.popleft()
        is_over = len(recent) >= limit.count
        if not is_over:
            recent.append(now_ms)
        return RateStatus(is_over, limit.count - len(recent), recent[0] + limit.per_ms - now_ms)

    def wait_ms(self, key: str, limit: RateLimit, count: int, *, now_ms: int) -> int:
        """The ms until *count* more events of *key* fit; 0: they fit now. Counts nothing."""
        recent = [at_ms for at_ms in self._at_ms[key] if at_ms > now_ms - limit.per_ms]
        too_many = len(recent) + min(count, limit.count) - limit.count
        return recent[too_many - 1] + limit.per_ms - now_ms if too_many > 0 else 0
