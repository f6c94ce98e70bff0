"""Ids that people see: a prefix that names the source, ``_``, and 8 of ``[0-9a-z]``.

Most are random. A message's id is computed from its row's id, by a permutation of the 2³² numbers. So it is unique
without an index, and its row is found without one. At one message a second the numbers last for 136 years. The
``messages`` table computes the same in SQL, where eight hexadecimal digits are one call.
"""

import re

from nanoid import generate

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
SIZE = 8

_PLACES = 2**32
_FACTOR = 1_640_531_527  # odd, so that no number comes twice; small, so that SQL's 64 bits hold the product
_OFFSET = 1_013_904_223
_BACK = pow(_FACTOR, -1, _PLACES)
_OF_ROW = re.compile("[^_].*_([0-9a-f]{8})", re.DOTALL)


def new(prefix: str) -> str:
    """A random id such as ``session_x9y8z7w6``. The table's constraint makes it unique, not this function."""
    return f"{prefix}_{generate(ALPHABET, SIZE)}"


def of_row(prefix: str, row_id: int) -> str:
    """The id of the message in row *row_id*."""
    return f"{prefix}_{(row_id * _FACTOR + _OFFSET) % _PLACES:08x}"


def row_of(id_: str) -> int | None:
    """The number of the row that may have this id, or None if no row can. Compare the row's own id."""
    match = _OF_ROW.fullmatch(id_)
    return int((int(match[1], 16) - _OFFSET) * _BACK % _PLACES) if match else None
