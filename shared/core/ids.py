"""Ids that people see: a prefix that names the source, ``_``, and 8 of ``[0-9a-z]``, drawn at random.

An id says nothing about the row, and nothing about the ids before and after it. A database that lost its newest rows
gives their ids to no other row. The table's constraint makes an id unique; whoever stores a row draws another id if the
constraint refuses one.
"""

import re
from os import urandom

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
SIZE = 8

DRAWS = 20
"""How many ids a statement tries. At ten million rows, the first one is taken once in 280 000 times."""


_PAIRS = [first + second for first in ALPHABET for second in ALPHABET]
_PAIR = len(_PAIRS)
_FORM = re.compile(r"[^_].*_[0-9a-z]{8}", re.DOTALL)


def new(prefix: str) -> str:
    """A random id such as ``session_x9y8z7w6``, a nanoid.

    Every message draws one, and this takes 1 µs where the package nanoid takes 2.6. Of 2⁶⁴ numbers, each of the 36⁸
    ids gets as many as any other, but for one in six million.
    """
    number, first = divmod(int.from_bytes(urandom(8)), _PAIR)
    number, second = divmod(number, _PAIR)
    number, third = divmod(number, _PAIR)
    return f"{prefix}_{_PAIRS[first]}{_PAIRS[second]}{_PAIRS[third]}{_PAIRS[number % _PAIR]}"


def has_form(text: str) -> bool:
    """Whether the text could be an id that ``new`` made."""
    return _FORM.fullmatch(text) is not None
