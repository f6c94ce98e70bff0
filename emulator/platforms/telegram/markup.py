"""Telegram's formatted text: reads a marked-up string into plain text and entities, or refuses it in Telegram's words.

The parser is Telegram's own (TDLib, the library inside the Bot API server), from the package ``tdjson``.

Source: https://core.telegram.org/bots/api#formatting-options. Offsets and lengths count UTF-16 units.
"""

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec

Entity = dict[str, Any]

_SPACES = " \t\n\r\v\f\0"
_TDLIB_TYPES = {
    "textEntityTypeBold": "bold",
    "textEntityTypeItalic": "italic",
    "textEntityTypeUnderline": "underline",
    "textEntityTypeStrikethrough": "strikethrough",
    "textEntityTypeSpoiler": "spoiler",
    "textEntityTypeCode": "code",
    "textEntityTypePre": "pre",
    "textEntityTypePreCode": "pre",
    "textEntityTypeBlockQuote": "blockquote",
    "textEntityTypeExpandableBlockQuote": "expandable_blockquote",
    "textEntityTypeTextUrl": "text_link",
    "textEntityTypeCustomEmoji": "custom_emoji",
    "textEntityTypeMention": "mention",
    "textEntityTypeUrl": "url",
    "textEntityTypeBotCommand": "bot_command",
    "textEntityTypeHashtag": "hashtag",
    "textEntityTypeCashtag": "cashtag",
    "textEntityTypeEmailAddress": "email",
    "textEntityTypePhoneNumber": "phone_number",
    "textEntityTypeMentionName": "text_mention",
    "textEntityTypeDateTime": "date_time",
}


class MarkupError(ValueError):
    """The markup can't be parsed; the message is Telegram's own, without ``Bad Request:``."""


class Formatted(msgspec.Struct, frozen=True):
    """Plain text and its entities, in order of offset."""

    text: str
    entities: tuple[Entity, ...]


def parse(text: str, mode: str | None) -> Formatted:
    """Parse *text* as ``HTML``, ``MarkdownV2``, ``Markdown`` or plain text (None), and trim it as Telegram does.

    The entities include the links, mentions and commands of the text. Raises MarkupError.
    """
    text = text.replace("\r", "")
    name = (mode or "").lower()
    if name not in ("", "html", "markdownv2", "markdown"):
        raise MarkupError("unsupported parse_mode")
    formatted = Formatted(text, ()) if name == "" else _parse_marked_up(text, name)
    trimmed = _trim(formatted)
    marked = [(entity["offset"], entity["offset"] + entity["length"], entity["type"]) for entity in trimmed.entities]
    found = [entity for entity in find(trimmed.text) if not _is_covered(entity, marked)]
    return Formatted(
        trimmed.text, tuple(sorted((*trimmed.entities, *found), key=lambda e: (e["offset"], -e["length"])))
    )


def find(text: str) -> list[Entity]:
    """The entities of plain *text*: commands, mentions, links, hashtags."""
    answer = _execute({"@type": "getTextEntities", "text": text})
    return [entity for raw in answer.get("entities", ()) if (entity := _entity(raw)) is not None]


def utf16_length(text: str) -> int:
    """How many UTF-16 units *text* takes: Telegram's unit for offsets."""
    return len(text) + sum(character > "\uffff" for character in text)


@cache
def _tdlib() -> Callable[[bytes], bytes | str | None]:
    """TDLib's synchronous function, with its log off. It opens no connections.

    The library has 53 MB, so only the first message imports it.
    """
    import tdjson  # 53 MB

    tdjson.td_execute(b'{"@type":"setLogVerbosityLevel","new_verbosity_level":0}')
    return tdjson.td_execute


def _execute(request: dict[str, Any]) -> dict[str, Any]:
    answer = _tdlib()(json.dumps(request).encode())
    return dict(json.loads(answer)) if answer else {}


def _parse_marked_up(text: str, name: str) -> Formatted:
    mode: dict[str, Any] = {"@type": "textParseModeHTML"}
    if name != "html":
        mode = {"@type": "textParseModeMarkdown", "version": 2 if name == "markdownv2" else 1}
    answer = _execute({"@type": "parseTextEntities", "text": text, "parse_mode": mode})
    if answer.get("@type") == "error":
        said = str(answer.get("message", ""))
        raise MarkupError(said[:1].lower() + said[1:])
    entities = (_entity(raw) for raw in answer.get("entities", ()))
    return Formatted(str(answer.get("text", "")), tuple(entity for entity in entities if entity is not None))


def _entity(raw: dict[str, Any]) -> Entity | None:
    kind = raw["type"]
    name = _TDLIB_TYPES.get(kind["@type"])
    if name is None:
        return None
    entity: Entity = {"type": name, "offset": raw["offset"], "length": raw["length"]}
    if "url" in kind:
        entity["url"] = kind["url"]
    if kind.get("language"):
        entity["language"] = kind["language"]
    if "custom_emoji_id" in kind:
        entity["custom_emoji_id"] = str(kind["custom_emoji_id"])
    return entity


def _is_covered(entity: Entity, marked: Sequence[tuple[int, int, str]]) -> bool:
    """Whether *entity*, found in plain text, lies in code or in a marked-up link."""
    start, end = entity["offset"], entity["offset"] + entity["length"]
    return any(start < to and end > begin for begin, to, kind in marked if kind in ("code", "pre", "text_link"))


def _trim(formatted: Formatted) -> Formatted:
    """Remove white space at the end, and at the start up to the first entity."""
    text = formatted.text.rstrip(_SPACES)
    first = min((entity["offset"] for entity in formatted.entities), default=len(text))
    blank = len(text) - len(text.lstrip(_SPACES))
    cut = min(blank, first)  # blanks are one unit each
    text = text[cut:]
    end = utf16_length(text)
    entities = []
    for entity in formatted.entities:
        offset = entity["offset"] - cut
        length = min(entity["length"], end - offset)
        if length > 0:
            entities.append({**entity, "offset": offset, "length": length})
    return Formatted(text, tuple(entities))
