"""Telegram's formatted text: a marked-up string in, plain text and entities out, or its own refusal.

With ``tdjson`` installed it is Telegram's own parser (the same code as the Bot API server's). Without it, HTML goes
through a strict parser of ours with the same wording, and the two Markdown modes are refused.

Source: https://core.telegram.org/bots/api#formatting-options. Offsets and lengths count UTF-16 units.
"""

import importlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

Entity = dict[str, Any]

_PLAIN_TAGS = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "tg-spoiler": "spoiler",
    "span": "spoiler",
    "blockquote": "blockquote",
    "a": "text_link",
    "pre": "pre",
    "code": "code",
    "tg-emoji": "custom_emoji",
    "tg-time": "date_time",
}
_REFERENCES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
_REFERENCE = re.compile(r"&(?:#(?:x([0-9a-fA-F]{1,7})|([0-9]{1,7}))|(lt|gt|amp|quot));?")
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
_FOUND = re.compile(
    r"(?P<bot_command>(?<![\w/@<>])/[A-Za-z0-9_]{1,64}(?:@[A-Za-z0-9_]{3,32})?(?![\w/]))"
    r"|(?P<email>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
    r"|(?P<mention>(?<!\w)@[A-Za-z][A-Za-z0-9_]{2,31}(?!\w))"
    r"|(?P<url>https?://[^\s<>\"']+[^\s<>\"'.,;:!?)])"
    r"|(?P<hashtag>(?<!\w)#\w*[^\W\d]\w*)"
)


class MarkupError(ValueError):
    """The markup can't be parsed; the message is Telegram's own, without ``Bad Request:``."""


@dataclass(frozen=True, slots=True)
class Formatted:
    """Plain text and what is special in it, in order of offset."""

    text: str
    entities: tuple[Entity, ...]


def parse(text: str, mode: str | None) -> Formatted:
    """Read *text* as ``HTML``, ``MarkdownV2``, ``Markdown`` or (None) as it stands; trimmed as Telegram trims.

    Links, mentions and commands are found as well. Raises MarkupError.
    """
    text = text.replace("\r", "")
    name = (mode or "").lower()
    if name not in ("", "html", "markdownv2", "markdown"):
        raise MarkupError("unsupported parse_mode")
    if name == "":
        formatted = Formatted(text, ())
    elif tdlib() is not None:
        formatted = _parse_with_tdlib(text, name)
    elif name == "html":
        formatted = parse_html(text)
    else:
        raise MarkupError(f"can't parse entities: {mode} needs Telegram's own parser: pip install tdjson")
    trimmed = _trim(formatted)
    marked = [(entity["offset"], entity["offset"] + entity["length"], entity["type"]) for entity in trimmed.entities]
    found = [entity for entity in find(trimmed.text) if not _is_covered(entity, marked)]
    return Formatted(
        trimmed.text, tuple(sorted((*trimmed.entities, *found), key=lambda e: (e["offset"], -e["length"])))
    )


def find(text: str) -> list[Entity]:
    """What Telegram finds in plain *text* by itself: commands, mentions, links, hashtags."""
    if tdlib() is not None:
        answer = _execute({"@type": "getTextEntities", "text": text})
        return [entity for raw in answer.get("entities", ()) if (entity := _from_tdlib(raw)) is not None]
    found = []
    for match in _FOUND.finditer(text):
        offset = utf16_length(text[: match.start()])
        found.append({"type": match.lastgroup, "offset": offset, "length": utf16_length(match.group())})
    return found


def parse_html(text: str) -> Formatted:
    """Our own strict reading of Telegram's HTML; the offsets in errors count UTF-8 bytes, as Telegram's do."""
    return _Html(text).parse()


def utf16_length(text: str) -> int:
    """How many UTF-16 units *text* takes: Telegram's unit for offsets."""
    return len(text) + sum(character > "\uffff" for character in text)


@cache
def tdlib() -> Callable[[bytes], bytes | str | None] | None:
    """TDLib's synchronous entry, quiet, or None when it is not installed. It opens no connections."""
    try:
        module = importlib.import_module("tdjson")
    except ImportError:
        return None
    execute: Callable[[bytes], bytes | str | None] = module.td_execute
    execute(b'{"@type":"setLogVerbosityLevel","new_verbosity_level":0}')
    return execute


def _execute(request: dict[str, Any]) -> dict[str, Any]:
    execute = tdlib()
    answer = execute(json.dumps(request).encode()) if execute else None
    return dict(json.loads(answer)) if answer else {}


def _parse_with_tdlib(text: str, name: str) -> Formatted:
    mode: dict[str, Any] = {"@type": "textParseModeHTML"}
    if name != "html":
        mode = {"@type": "textParseModeMarkdown", "version": 2 if name == "markdownv2" else 1}
    answer = _execute({"@type": "parseTextEntities", "text": text, "parse_mode": mode})
    if answer.get("@type") == "error":
        said = str(answer.get("message", ""))
        raise MarkupError(said[:1].lower() + said[1:])
    entities = (_from_tdlib(raw) for raw in answer.get("entities", ()))
    return Formatted(str(answer.get("text", "")), tuple(entity for entity in entities if entity is not None))


def _from_tdlib(raw: dict[str, Any]) -> Entity | None:
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
    """Whether *entity*, found in plain text, lies in code or in a link that somebody made."""
    start, end = entity["offset"], entity["offset"] + entity["length"]
    return any(start < to and end > begin for begin, to, kind in marked if kind in ("code", "pre", "text_link"))


def _trim(formatted: Formatted) -> Formatted:
    """Without white space at the end, and at the start as far as no entity stands there."""
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


@dataclass(slots=True)
class _Open:
    """A start tag that waits for its end."""

    tag: str
    argument: str
    offset: int


class _Html:
    """One reading of one text, position by position, after TDLib's ``parse_html``."""

    def __init__(self, text: str) -> None:
        self._text = text + "\0"  # the end can be looked at without asking for it
        self._end = len(text)
        self._at = 0
        self._out: list[str] = []
        self._units = 0
        self._open: list[_Open] = []
        self._entities: list[Entity] = []

    def parse(self) -> Formatted:
        while self._at < self._end:
            if self._text[self._at] == "<":
                self._tag()
            else:
                self._put(self._character())
        if self._open:
            raise MarkupError(
                f"can't parse entities: Can't find end tag corresponding to start tag \"{self._open[-1].tag}\""
            )
        entities = sorted(self._entities, key=lambda entity: (entity["offset"], -entity["length"]))
        return Formatted("".join(self._out), tuple(entities))

    def _put(self, character: str) -> None:
        self._out.append(character)
        self._units += utf16_length(character)

    def _character(self) -> str:
        """The next character, a reference decoded."""
        if self._text[self._at] == "&" and (match := _REFERENCE.match(self._text, self._at)):
            hexadecimal, decimal, name = match.groups()
            code = int(hexadecimal, 16) if hexadecimal else int(decimal) if decimal else 0
            known = (
                _REFERENCES[name] if name else chr(code) if 0 < code < 0x10FFFF and not 0xD800 <= code < 0xE000 else ""
            )
            if known:
                self._at = match.end()
                return known
        self._at += 1
        return self._text[self._at - 1]

    def _fail(self, reason: str, position: int) -> MarkupError:
        bytes_before = len(self._text[:position].encode("utf-8", "surrogatepass"))
        return MarkupError(f"can't parse entities: {reason} at byte offset {bytes_before}")

    def _skip(self, stop: str) -> str:
        """Move to the next of *stop*, or the end; what was passed over."""
        begin = self._at
        while self._at < self._end and self._text[self._at] not in stop:
            self._at += 1
        return self._text[begin : self._at]

    def _skip_spaces(self) -> None:
        while self._at < self._end and self._text[self._at] in _SPACES:
            self._at += 1

    def _tag(self) -> None:
        begin = self._at
        self._at += 1
        if self._text[self._at] == "/":
            self._end_tag(begin)
        else:
            self._start_tag(begin)
        self._at += 1  # past the ">"

    def _start_tag(self, begin: int) -> None:
        tag = self._skip(_SPACES + ">").lower()
        if self._at >= self._end:
            raise self._fail("Unclosed start tag", begin)
        if tag not in _PLAIN_TAGS:
            raise self._fail(f'Unsupported start tag "{tag}"', begin)
        argument = ""
        while self._text[self._at] != ">":
            self._skip_spaces()
            if self._text[self._at] == ">":
                break
            name, value = self._attribute(tag, begin)
            argument = _argument(tag, name, value) or argument
        if tag == "span" and not argument:
            raise self._fail('Tag "span" must have class "tg-spoiler"', begin)
        self._open.append(_Open(tag, argument, self._units))

    def _attribute(self, tag: str, begin: int) -> tuple[str, str]:
        name = self._skip(_SPACES + "=>/'\"")
        if not name:
            raise self._fail(f'Empty attribute name in the tag "{tag}"', begin)
        self._skip_spaces()
        if self._at >= self._end:
            raise self._fail(f'Unclosed start tag "{tag}"', begin)
        if self._text[self._at] != "=":
            return name.lower(), ""
        self._at += 1
        self._skip_spaces()
        if self._at >= self._end:
            raise self._fail(f'Unclosed start tag "{tag}"', begin)
        value = self._quoted() if self._text[self._at] in "'\"" else self._token()
        if self._at >= self._end:
            raise self._fail("Unclosed start tag", begin)
        return name.lower(), value

    def _token(self) -> str:
        begin = self._at
        while self._text[self._at].isascii() and (self._text[self._at].isalnum() or self._text[self._at] in ".-"):
            self._at += 1
        if self._text[self._at] not in _SPACES + ">":
            raise self._fail("Unexpected end of name token", begin)
        return self._text[begin : self._at].lower()

    def _quoted(self) -> str:
        quote = self._text[self._at]
        self._at += 1
        value = []
        while self._at < self._end and self._text[self._at] != quote:
            value.append(self._character())
        if self._at < self._end:
            self._at += 1
        return "".join(value)

    def _end_tag(self, begin: int) -> None:
        if not self._open:
            raise self._fail("Unexpected end tag", begin)
        self._at += 1
        name = self._skip(_SPACES + ">").lower()
        self._skip_spaces()
        if self._text[self._at] != ">" or self._at >= self._end:
            raise self._fail("Unclosed end tag", begin)
        opened = self._open[-1]
        if name and name != opened.tag:
            reason = "Unmatched end tag"
            place = self._fail(reason, begin)
            raise MarkupError(f'{place}, expected "</{opened.tag}>", found "</{name}>"')
        self._open.pop()
        if self._units > opened.offset and (entity := self._entity(opened)) is not None:
            self._entities.append(entity)

    def _entity(self, opened: _Open) -> Entity | None:
        """What a closed tag means, or None when it marks nothing (a link without a usable target)."""
        entity: Entity = {
            "type": _PLAIN_TAGS[opened.tag],
            "offset": opened.offset,
            "length": self._units - opened.offset,
        }
        if opened.tag == "a":
            url = opened.argument or "".join(self._out)[-entity["length"] :]
            if not re.match(r"(?:https?://|tg://|mailto:|tel:)?[^\s]+\.[^\s]+|tg://\S+", url):
                return None
            entity["url"] = url if "://" in url else f"http://{url}"
        elif opened.tag == "blockquote" and opened.argument:
            entity["type"] = "expandable_blockquote"
        elif opened.tag == "code" and opened.argument and self._open and self._open[-1].tag == "pre":
            self._open[-1].argument = opened.argument
            return None
        elif opened.tag == "pre" and opened.argument:
            entity["language"] = opened.argument
            same = {"type": "code", "offset": entity["offset"], "length": entity["length"]}
            self._entities = [other for other in self._entities if other != same]
        elif opened.tag == "tg-emoji":
            entity["custom_emoji_id"] = opened.argument
        return entity


def _argument(tag: str, name: str, value: str) -> str:
    """What an attribute gives to its tag; the unknown ones give nothing."""
    if tag == "a" and name == "href":
        return value
    if tag == "code" and name == "class" and value.startswith("language-"):
        return value.removeprefix("language-")
    if tag == "span" and name == "class" and value.startswith("tg-"):
        return value.removeprefix("tg-")
    if tag == "blockquote" and name == "expandable":
        return "1"
    if (tag, name) in (("tg-emoji", "emoji-id"), ("tg-time", "unix")):
        return value
    return ""
