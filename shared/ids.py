"""Ids that people see: a prefix that tells the source, ``_``, and 8 of ``[0-9a-z]``."""

from nanoid import generate

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
SIZE = 8


def new(prefix: str) -> str:
    """A fresh id such as ``telegram_x9y8z7w6``. Uniqueness is the table's constraint, not a promise of this."""
    return f"{prefix}_{generate(ALPHABET, SIZE)}"
