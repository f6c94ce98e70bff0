"""How long to wait before another try."""


def delay_ms(attempt: int, *, base_ms: int, cap_ms: int, jitter: float) -> int:
    """Exponential backoff, spread: ``base * 2**(attempt-1)``, at most *cap_ms*, times a factor in [0.5, 1.0].

    Args:
        attempt: how many tries have failed, from 1.
        jitter: a number in [0, 1) from the caller's random source, so that tests can give a literal one.
    """
    full = min(cap_ms, base_ms * 2 ** min(attempt - 1, 30))
    return int(full * (0.5 + jitter / 2))
