"""The text or caption of a call: parsed with its entities, and refused where it is empty or too long.

Source: https://core.telegram.org/bots/api#formatting-options, #sendmessage
"""

from emulator.platforms.telegram import markup
from emulator.platforms.telegram.calls import Params, TelegramError, parse_nested

MAX_TEXT, MAX_CAPTION = 4096, 1024  # code points, after parsing
MAX_RAW_BYTES = 32_768  # before parsing


def formatted_text(params: Params) -> markup.Formatted:
    """The text of a message, which may not be empty."""
    formatted = _formatted(params, "text", "entities")
    if not formatted.text:
        raise TelegramError(400, "Bad Request: message text is empty")
    if len(formatted.text) > MAX_TEXT:
        raise TelegramError(400, "Bad Request: message is too long")
    return formatted


def formatted_caption(params: Params) -> markup.Formatted:
    """The caption of a file; empty where there is none."""
    formatted = _formatted(params, "caption", "caption_entities")
    if len(formatted.text) > MAX_CAPTION:
        raise TelegramError(400, "Bad Request: message caption is too long")
    return formatted


def formatted_draft(params: Params) -> markup.Formatted:
    """The text of a draft: empty means "Thinking…"."""
    formatted = _formatted(params, "text", "entities")
    if len(formatted.text) > MAX_TEXT:
        raise TelegramError(400, "Bad Request: message is too long")
    return formatted


def _formatted(params: Params, key: str, entities_key: str) -> markup.Formatted:
    text = params.get(key)
    text = "" if text is None else str(text)
    if len(text.encode()) > MAX_RAW_BYTES:
        raise TelegramError(400, f"Bad Request: {key} is too long")
    try:
        formatted = markup.parse(text, str(params.get("parse_mode") or "") or None)
    except markup.MarkupError as problem:
        raise TelegramError(400, f"Bad Request: {problem}") from None
    if not params.get("parse_mode") and params.get(entities_key) is not None:
        given = parse_nested(params[entities_key])
        if not isinstance(given, list):
            raise TelegramError(400, "Bad Request: can't parse entities JSON object")
        return markup.Formatted(formatted.text, tuple(given))
    return formatted
