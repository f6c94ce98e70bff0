"""The only source of randomness, for ids, tokens and jitter. By default, it is the operating system's.

A simulation that gives another source can repeat a run exactly. The product never calls :func:`draw_from`: no setting,
file or request does.
"""

import base64
import os
from collections.abc import Callable

from nanoid.method import method

_draw: Callable[[int], bytes] = os.urandom


def draw_from(source: Callable[[int], bytes]) -> None:
    """Take all random bytes from *source* from now on; its argument is their number."""
    global _draw
    _draw = source


def token_bytes(size: int) -> bytes:
    """So many random bytes."""
    return _draw(size)


def token_hex(size: int) -> str:
    """So many random bytes, as hexadecimal digits."""
    return _draw(size).hex()


def token_urlsafe(size: int) -> str:
    """So many random bytes, as text that is safe in URLs."""
    return base64.urlsafe_b64encode(_draw(size)).rstrip(b"=").decode()


def fraction() -> float:
    """At least 0 and less than 1, evenly."""
    return (int.from_bytes(_draw(7)) >> 3) / (1 << 53)


def below(limit: int) -> int:
    """A whole number from 0 to *limit* - 1, each as likely as another."""
    bits = (limit - 1).bit_length()
    size = (bits + 7) // 8
    while True:
        drawn = int.from_bytes(_draw(size)) >> (size * 8 - bits)
        if drawn < limit:
            return drawn


def text(alphabet: str, size: int) -> str:
    """So many characters of the *alphabet*, each as likely as another."""
    found: str = method(_draw, alphabet, size)
    return found
