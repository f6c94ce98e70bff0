"""Ids that people see: a prefix that tells the source, ``_``, and 8 of ``[0-9a-z]``.

Most are random. A message's is computed from its row's id, by a step that visits every one of 2³² places once: it is
unique without an index of its own, and finds its row without one. At 200 messages a second the places last for 680
years. The ``messages`` table computes the same in SQL, where eight hexadecimal digits are one call.
"""

import re

from nanoid import generate

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
SIZE = 8

_PLACES = 2**32
_FACTOR = 1_640_531_527  # odd, so every place is visited; small, so that SQL's 64 bits hold the product
_OFFSET = 1_013_904_223
_BACK = pow(_FACTOR, -1, _PLACES)
_OF_ROW = re.compile("[^_].*_([0-9a-f]{8})", re.DOTALL)


def new(prefix: str) -> str:
    """A fresh id such as ``session_x9y8z7w6``. Uniqueness is the table's constraint, not a promise of this."""
    return f"{prefix}_{generate(ALPHABET, SIZE)}"


def of_row(prefix: str, row_id: int) -> str:
    """The id of the message in row *row_id*."""
    return f"{prefix}_{(row_id * _FACTOR + _OFFSET) % _PLACES:08x}"


def row_of(id_: str) -> int | None:
    """The row whose id this may be, or None if it can be no row's. Whether it is, only the row can tell."""
    match = _OF_ROW.fullmatch(id_)
    return int((int(match[1], 16) - _OFFSET) * _BACK % _PLACES) if match else None
