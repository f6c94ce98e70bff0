"""How much happened of late, counted key by key in a window that slides: what both platforms' flood limits go by."""

from collections import defaultdict, deque
from dataclasses import dataclass, field

from emulator.platforms.config import RateLimit


@dataclass(frozen=True, slots=True)
class RateStatus:
    """Whether this one did not fit, how many more do, and in how many ms the oldest leaves the window."""

    is_over: bool
    left: int
    opens_ms: int


@dataclass(slots=True)
class RateWindow:
    """When the last ones of each key were, in memory: a restart begins anew."""

    _at_ms: dict[str, deque[int]] = field(default_factory=lambda: defaultdict(deque))

    def take(self, key: str, limit: RateLimit, *, now_ms: int) -> RateStatus:
        """One more of *key*, which counts only if it fits."""
        recent = self._at_ms[key]
        while recent and recent[0] <= now_ms - limit.per_ms:
            recent.popleft()
        is_over = len(recent) >= limit.count
        if not is_over:
            recent.append(now_ms)
        return RateStatus(is_over, limit.count - len(recent), recent[0] + limit.per_ms - now_ms)
