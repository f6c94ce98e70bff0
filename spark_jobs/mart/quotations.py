"""Takes out of a row's JSON what it quotes of a person: a reply holds the words and the id of whom it answers."""

import json
from collections.abc import Callable
from typing import Any

_OF_MESSAGES = frozenset({"message_id", "id", "asked_at"})  # numbers of messages may equal a person's id by chance
_LONGEST_ID = 64
_GONE = object()

IsTheirId = Callable[[str], bool]


def without_quotations(text: str | None, is_their_id: IsTheirId, is_quoted: Callable[[Any], bool]) -> str | None:
    """The JSON *text* without each object that names the person, and without each such value at its top.

    Args:
        is_quoted: whether its ``reply_to``, an object, is a message of theirs or an answer to them.

    Returns:
        *text* itself where nothing of the person is in it, or it is no JSON.
    """
    if not text or text[0] not in "{[" or text in ("{}", "[]"):
        return text
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):  # a person's text may look like JSON
        return text
    top = facts
    if isinstance(facts, dict):
        quoted = facts.get("reply_to")
        gone = "reply_to" if isinstance(quoted, dict) and is_quoted(quoted) else None
        top = {name: each for name, each in facts.items() if name != gone and not _names(name, each, is_their_id)}
    kept = _cleaned(top, is_their_id)
    return text if kept == facts else json.dumps(kept, ensure_ascii=False)


def _cleaned(value: Any, is_their_id: IsTheirId) -> Any:
    if isinstance(value, dict):
        if any(_names(name, each, is_their_id) for name, each in value.items()):
            return _GONE
        return {name: one for name, each in value.items() if (one := _cleaned(each, is_their_id)) is not _GONE}
    if isinstance(value, list):
        kept = (each for each in value if not _names("", each, is_their_id))
        return [one for each in kept if (one := _cleaned(each, is_their_id)) is not _GONE]
    return value


def _names(name: str, value: Any, is_their_id: IsTheirId) -> bool:
    if name in _OF_MESSAGES or isinstance(value, bool) or not isinstance(value, str | int):
        return False
    text = str(value)
    return 0 < len(text) <= _LONGEST_ID and is_their_id(text)
