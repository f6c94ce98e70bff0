"""The one place that reads the wall clock; every other function takes ``now_ms`` as a parameter."""

import time


def now_ms() -> int:
    """Milliseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000_000
