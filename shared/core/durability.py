"""What a 2xx promises, by channel: a row on this disk, or one that is in the replica as well."""

from typing import Literal

Durability = Literal["local", "replicated"]
EVERY_OTHER = "*"
_WORDS: dict[str, Durability] = {"local": "local", "replicated": "replicated"}


def parse_levels(text: str) -> dict[str, Durability]:
    """By channel, what ``POSTROOM_DURABILITY`` says; ``*`` is every channel that is not named.

    Raises:
        ValueError: it can't be understood.
    """
    found: dict[str, Durability] = {}
    for part in text.split(","):
        name, equals, word = (piece.strip() for piece in part.rpartition("="))
        channel = name if equals else EVERY_OTHER
        if not channel or channel in found or word not in _WORDS:
            raise ValueError("should be local or replicated, then channels that differ: local,telegram=replicated")
        found[channel] = _WORDS[word]
    found.setdefault(EVERY_OTHER, "local")
    return found
