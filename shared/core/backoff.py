"""The wait before another attempt."""


def delay_ms(attempt: int, *, base_ms: int, cap_ms: int, jitter: float) -> int:
    """Exponential backoff with jitter: ``base * 2**(attempt-1)``, at most *cap_ms*, times a factor in [0.5, 1.0].

    Args:
        attempt: the number of attempts that failed, from 1.
        jitter: a number in [0, 1), drawn by the caller, so that tests can pass a literal one.
    """
    full = min(cap_ms, base_ms * 2 ** min(attempt - 1, 30))
    return int(full * (0.5 + jitter / 2))
