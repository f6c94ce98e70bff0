"""The methods with which a bot sends a message again: forwarded, with its origin, or as a copy.

Source: https://core.telegram.org/bots/api#forwardmessage, #copymessage, #messageorigin
"""

from typing import Any

from emulator.platforms import files
from emulator.platforms.store import FakeChat, FakeMessage
from emulator.platforms.telegram.calls import (
    ApiMethod,
    MethodResult,
    Params,
    TelegramError,
    is_true,
    keyboard,
    parse_nested,
)
from emulator.platforms.telegram.methods.sender import TelegramSender
from emulator.platforms.telegram.texts import formatted_caption

MOST = 100
_KEPT = ("entities", "files", "content")  # of the detail of the message that is sent again


class TelegramCopies:
    """``chat_id`` is where the message goes, ``from_chat_id`` where it stands."""

    def __init__(self, sender: TelegramSender) -> None:
        self._sender, self._places = sender, sender.places

    def methods(self) -> tuple[ApiMethod, ...]:
        return (
            ApiMethod("forwardMessage", self._forward),
            ApiMethod("forwardMessages", self._forward_many),
            ApiMethod("copyMessage", self._copy),
            ApiMethod("copyMessages", self._copy_many),
        )

    async def _forward(self, params: Params) -> MethodResult:
        chat, source = self._places.writable(params), self._source(params)
        message = self._places.message(source, params, "forward")
        placed = self._sender.placed(chat, params, None)
        self._places.flood.take(chat)
        return self._sender.sent(chat, message.text, {**placed, **self._again(message), **self._origin(message)})

    async def _copy(self, params: Params) -> MethodResult:
        """A ``caption`` replaces that of the file."""
        caption, buttons = formatted_caption(params), keyboard(params)
        chat, source = self._places.writable(params), self._source(params)
        message = self._places.message(source, params, "copy")
        placed = self._sender.placed(chat, params, buttons)
        self._places.flood.take(chat)
        text, detail = message.text, self._again(message)
        if params.get("caption") is not None and files.of(message.detail):
            text, detail = caption.text, {**detail, "entities": list(caption.entities)}
        return MethodResult({"message_id": int(self._sender.add(chat, text, {**placed, **detail}).id)})

    async def _forward_many(self, params: Params) -> MethodResult:
        return self._send_many(params, is_forward=True)

    async def _copy_many(self, params: Params) -> MethodResult:
        return self._send_many(params, is_forward=False)

    def _send_many(self, params: Params, *, is_forward: bool) -> MethodResult:
        """Those that are gone are passed over. Albums stay albums."""
        wanted = parse_nested(params.get("message_ids") or [])
        if not wanted or len(wanted) > MOST:
            raise TelegramError(400, "Bad Request: message identifiers are not specified")
        if wanted != sorted(set(wanted)):
            raise TelegramError(400, "Bad Request: message identifiers must be in a strictly increasing order")
        chat, source = self._places.writable(params), self._source(params)
        known = [self._sender.store.message(source, str(each)) for each in wanted]
        found = [message for message in known if message is not None]
        if not found:
            what = "forward" if is_forward else "copy"
            raise TelegramError(400, f"Bad Request: there are no messages to {what}")
        placed = self._sender.placed(chat, params, None)
        self._places.flood.take(chat, len(found))
        sent = []
        for message in found:
            album = {key: f"9{message.detail[key]}" for key in ("media_group_id",) if key in message.detail}
            detail = {**placed, **album, **self._again(message), **(self._origin(message) if is_forward else {})}
            is_bare = is_true(params.get("remove_caption")) and bool(files.of(message.detail))
            text = "" if is_bare else message.text
            sent.append(self._sender.add(chat, text, {**detail, **({"entities": []} if is_bare else {})}))
        return MethodResult([{"message_id": int(message.id)} for message in sent])

    def _source(self, params: Params) -> FakeChat:
        return self._places.known({"chat_id": params.get("from_chat_id")})

    def _again(self, message: FakeMessage) -> dict[str, Any]:
        """The content; a poll starts again without votes."""
        detail = {key: message.detail[key] for key in _KEPT if key in message.detail}
        poll = message.detail.get("poll")
        return {**detail, "poll": {**poll, "votes": {}}} if poll else detail

    def _origin(self, message: FakeMessage) -> dict[str, Any]:
        """Where it was first written; a message that is forwarded again keeps its origin."""
        if "origin" in message.detail:
            return {"origin": message.detail["origin"]}
        author = None if message.is_bot else message.author
        return {"origin": {"author": author, "date": message.created_ms // 1000}}
