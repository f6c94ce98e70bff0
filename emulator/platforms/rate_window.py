"""How much happened of late, counted key by key in a window that slides: what both platforms' flood limits go by."""

from collections import defaultdict, deque
from dataclasses import dataclass, field

from emulator.platforms.config import Flood


@dataclass(frozen=True, slots=True)
class Room:
    """Whether this one did not fit, how many more do, and in how many ms the oldest leaves the window."""

    is_over: bool
    left: int
    opens_ms: int


@dataclass(slots=True)
class Recent:
    """When the last ones of each key were, in memory: a restart begins anew."""

    _at_ms: dict[str, deque[int]] = field(default_factory=lambda: defaultdict(deque))

    def take(self, key: str, flood: Flood, *, now_ms: int) -> Room:
        """One more of *key*, which counts only if it fits."""
        recent = self._at_ms[key]
        while recent and recent[0] <= now_ms - flood.per_ms:
            recent.popleft()
        is_over = len(recent) >= flood.count
        if not is_over:
            recent.append(now_ms)
        return Room(is_over, flood.count - len(recent), recent[0] + flood.per_ms - now_ms)
