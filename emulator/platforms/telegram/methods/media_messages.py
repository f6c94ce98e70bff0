"""The methods with which a bot sends files, alone or as an album, and changes their captions.

Source: https://core.telegram.org/bots/api#sendphoto, #sendmediagroup, #editmessagecaption, #editmessagemedia
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from emulator.platforms import files
from emulator.platforms.telegram.calls import (
    ApiMethod,
    MethodResult,
    Params,
    TelegramError,
    UploadedParams,
    keyboard,
    parse_nested,
    uploads_of,
)
from emulator.platforms.telegram.files import TelegramFiles
from emulator.platforms.telegram.methods.sender import TelegramSender
from emulator.platforms.telegram.texts import formatted_caption

SINGLE: Mapping[str, str] = {
    "sendPhoto": "photo",
    "sendDocument": "document",
    "sendAudio": "audio",
    "sendVideo": "video",
    "sendAnimation": "animation",
    "sendVoice": "voice",
    "sendVideoNote": "video_note",
    "sendSticker": "sticker",
}
MAX_ALBUM = 10
_FAMILY = {"photo": "visual", "video": "visual", "document": "document", "audio": "audio"}  # of one album


class TelegramMediaMessages:
    """Sends and changes messages with files."""

    def __init__(self, sender: TelegramSender, kept: TelegramFiles) -> None:
        self._sender, self._files = sender, kept
        self._objects, self._places = sender.objects, sender.places

    def methods(self) -> tuple[ApiMethod, ...]:
        single = tuple(ApiMethod(name, self._sending(kind)) for name, kind in SINGLE.items())
        return (
            *single,
            ApiMethod("sendMediaGroup", self._send_media_group),
            ApiMethod("editMessageCaption", self._edit_caption),
            ApiMethod("editMessageMedia", self._edit_media),
        )

    def _sending(self, kind: str) -> Callable[[Params], Awaitable[MethodResult]]:
        async def send(params: Params) -> MethodResult:
            caption = formatted_caption(params)
            buttons = keyboard(params)
            chat = self._places.writable(params)
            placed = self._sender.placed(chat, params, buttons)
            shown = self._take_file(kind, params.get(kind), params, params)
            self._places.flood.take(chat)
            detail = {**placed, "files": [shown], "entities": list(caption.entities)}
            return self._sender.sent(chat, caption.text, detail)

        return send

    async def _send_media_group(self, params: Params) -> MethodResult:
        """All messages of the album, or none."""
        items = parse_nested(params.get("media", "[]"))
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise TelegramError(400, "Bad Request: can't parse media JSON object")
        _check_album(items)
        chat = self._places.writable(params)
        placed = {**self._sender.placed(chat, params, None), "media_group_id": str(secrets.randbits(53))}
        made = []
        for item in items:
            caption = formatted_caption(item)
            shown = self._take_file(str(item["type"]), item.get("media"), params, item)
            made.append((caption.text, {**placed, "files": [shown], "entities": list(caption.entities)}))
        self._places.flood.take(chat, len(items))
        sent = [self._sender.add(chat, text, detail) for text, detail in made]
        return MethodResult([self._objects.message(chat, message) for message in sent])

    async def _edit_caption(self, params: Params) -> MethodResult:
        caption, buttons = formatted_caption(params), keyboard(params)
        chat = self._places.writable(params)
        message = self._places.own_message(chat, params)
        if not files.of(message.detail):
            raise TelegramError(400, "Bad Request: there is no caption in the message to edit")
        return self._sender.edit(chat, message, buttons, caption.text, entities=list(caption.entities))

    async def _edit_media(self, params: Params) -> MethodResult:
        item, buttons = parse_nested(params.get("media", "{}")), keyboard(params)
        if not isinstance(item, dict) or item.get("type") not in (*_FAMILY, "animation"):
            raise TelegramError(400, "Bad Request: can't parse InputMedia: unsupported type of media")
        caption = formatted_caption(item)
        chat = self._places.writable(params)
        message = self._places.own_message(chat, params)
        before = files.of(message.detail)
        is_album = "media_group_id" in message.detail
        if is_album and _FAMILY.get(before[0]["kind"]) != _FAMILY.get(str(item["type"])):
            raise TelegramError(400, "Bad Request: can't use media of the specified type in the album")
        shown = self._take_file(str(item["type"]), item.get("media"), params, item)
        given = list(caption.entities)
        return self._sender.edit(chat, message, buttons, caption.text, entities=given, files=[shown])

    def _take_file(self, kind: str, value: Any, params: Params, about: Mapping[str, Any]) -> dict[str, Any]:
        """The entry of ``detail["files"]``; *about* holds what the call says about the file."""
        given = UploadedParams({}, uploads_of(params))
        shown = self._files.take(kind, value, given, now_ms=self._sender.clock.now_ms())
        known = {key: int(about[key]) for key in ("width", "height", "duration") if about.get(key)}
        return {**known, **shown}


def _check_album(items: list[dict[str, Any]]) -> None:
    if len(items) > MAX_ALBUM:
        raise TelegramError(400, "Bad Request: too many messages to send as an album")
    if len(items) < 2:
        raise TelegramError(400, "Bad Request: there must be 2-10 messages to send as an album")
    kinds = [item.get("type") for item in items]
    if not all(kind in _FAMILY for kind in kinds):
        raise TelegramError(400, "Bad Request: can't use the media of the specified type in the album")
    families = {_FAMILY[str(kind)] for kind in kinds}
    if len(families) > 1:
        strict = "document" if "document" in families else "audio"
        raise TelegramError(400, f"Bad Request: {strict} can't be mixed with other media types")
