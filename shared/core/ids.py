"""Ids that people see: a prefix that names the source, ``_``, and 8 of ``[0-9a-z]``, drawn at random.

An id says nothing about the row. A database that lost its newest rows gives their ids to no other row. The table's
constraint makes an id unique; whoever stores a row draws another id if the constraint refuses one.

Messages come too often for ids that have nothing in common: each would change another page of the index, and each page
goes to the disk and to the bucket. So ids of messages are drawn in bursts, which share their first three characters.
Measured with ``replicated`` under load: 2.4 KB a message in the bucket in place of 4.3. Of some
200 000 guesses with the beginning of a burst one is an id; with ten million messages, of 130 000.
"""

import re

from shared.core import chance

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
SIZE = 8

DRAWS = 20
"""How many ids a statement tries. At ten million rows, the first one is taken once in 170 000 times."""

_SHARED = 3  # characters, by the ids of a burst
_BURST = 256  # ids

_FORM = re.compile(r"[^_].*_[0-9a-z]{8}", re.DOTALL)


def new(prefix: str) -> str:
    """A random id such as ``session_x9y8z7w6``."""
    return f"{prefix}_{chance.text(ALPHABET, SIZE)}"


class Burst:
    """Draws ids of which 256 in a row share their first characters, so an index keeps them on a few pages.

    Each beginning is drawn at random too. Two threads may use one burst, which is a little longer then.
    """

    def __init__(self, beginning: str = "", left: int = 0) -> None:
        self._beginning = beginning
        self._left = left

    def new(self, prefix: str) -> str:
        """As the function :func:`new`."""
        beginning, left = self._beginning, self._left  # another thread may change them at any moment
        if left <= 0:
            beginning, left = chance.text(ALPHABET, _SHARED), _BURST
        self._beginning, self._left = beginning, left - 1
        return f"{prefix}_{beginning}{chance.text(ALPHABET, SIZE - _SHARED)}"


def has_form(text: str) -> bool:
    """Whether the text could be an id that ``new`` made."""
    return _FORM.fullmatch(text) is not None
