"""Reactions to a message: ``detail["reactions"]`` maps each emoji to the ids of the people and bots that chose it."""

from collections.abc import Iterable, Mapping
from typing import Any


def read(detail: Mapping[str, Any]) -> dict[str, list[str]]:
    """Emoji and ids, oldest emoji first. The first release kept a list of the bot's own emoji, without ids."""
    kept = detail.get("reactions") or {}
    return {emoji: list(ids) for emoji, ids in kept.items()} if isinstance(kept, dict) else {e: ["bot"] for e in kept}


def of_one(detail: Mapping[str, Any], who: str) -> list[str]:
    """The emoji that *who* chose."""
    return [emoji for emoji, ids in read(detail).items() if who in ids]


def chosen(detail: Mapping[str, Any], who: str, emoji: Iterable[str]) -> dict[str, Any]:
    """The detail after *who* chose exactly *emoji*: it replaces the choice before; none removes it."""
    wanted = list(dict.fromkeys(emoji))
    left = {each: [one for one in ids if one != who] for each, ids in read(detail).items()}
    for each in wanted:
        left[each] = [*left.get(each, ()), who]
    return {**detail, "reactions": {each: ids for each, ids in left.items() if ids}}
