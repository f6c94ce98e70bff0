"""The wait before another attempt."""

LONGEST_SLEEP_MS = 6 * 60 * 60 * 1000  # longer than a round of tries over all chats


def delay_ms(attempt: int, *, base_ms: int, cap_ms: int, jitter: float, growth: int = 2) -> int:
    """Exponential backoff with jitter: ``base * growth**(attempt-1)``, at most *cap_ms*, times a factor in [0.5, 1.0].

    Args:
        attempt: the number of attempts that failed, from 1.
        jitter: a number in [0, 1), drawn by the caller, so that tests can pass a literal one.
    """
    return spread_ms(min(cap_ms, base_ms * growth ** min(attempt - 1, 30)), jitter=jitter)


def outage_delay_ms(elapsed_ms: int, *, shortest_ms: int, longest_ms: int) -> int:
    """The wait in an outage that has lasted *elapsed_ms*: as long again, within the limits. It needs no count."""
    return min(max(elapsed_ms, shortest_ms), longest_ms)


def has_slept(due_ms: int | None, *, now_ms: int) -> bool:
    """Whether nothing was tried for hours after *due_ms*, as where the machine slept: waits begin anew then."""
    return due_ms is not None and now_ms - due_ms > LONGEST_SLEEP_MS


def spread_ms(wait_ms: int, *, jitter: float) -> int:
    """*wait_ms* times a factor in [0.5, 1.0], as *jitter* in [0, 1) says."""
    return int(wait_ms * (0.5 + jitter / 2))
