"""Ids that people see: a prefix that tells the source, ``_``, and 8 of ``[0-9a-z]``.

Most are random. A message's is computed from its row's id, by a step that visits every one of the 36⁸ places once: it
is unique without an index, and finds its row without one. The ``messages`` table computes the same in SQL.
"""

from nanoid import generate

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
SIZE = 8

_PLACES = len(ALPHABET) ** SIZE
_FACTOR = 2_654_435_761  # no factor in common with 36; small enough that SQL's 64 bits hold the product
_OFFSET = 1_013_904_223
_BACK: int = pow(_FACTOR, -1, _PLACES)


def new(prefix: str) -> str:
    """A fresh id such as ``session_x9y8z7w6``. Uniqueness is the table's constraint, not a promise of this."""
    return f"{prefix}_{generate(ALPHABET, SIZE)}"


def of_row(prefix: str, row_id: int) -> str:
    """The id of the message in row *row_id*."""
    place = (row_id * _FACTOR + _OFFSET) % _PLACES
    digits = []
    for _ in range(SIZE):
        place, digit = divmod(place, len(ALPHABET))
        digits.append(ALPHABET[digit])
    return f"{prefix}_{''.join(reversed(digits))}"


def row_of(id_: str) -> int | None:
    """The row whose id this may be, or None if it can be no row's. Whether it is, only the row can tell."""
    _, _, code = id_.rpartition("_")
    if len(code) != SIZE or not set(code) <= set(ALPHABET):
        return None
    return int((int(code, len(ALPHABET)) - _OFFSET) * _BACK % _PLACES)
