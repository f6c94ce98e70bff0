"""Drafts: a text that a person sees while the bot still writes it, with a button that stops the bot.

The chat page shows a draft until 30 s pass without another one, or until the bot's message comes.

Source: https://core.telegram.org/bots/api#sendmessagedraft, #messagegenerationstopped
"""

from emulator.platforms.bus import EventBus
from emulator.platforms.telegram.calls import ApiMethod, MethodResult, Params, TelegramError, integer, is_true
from emulator.platforms.telegram.places import TelegramPlaces
from emulator.platforms.telegram.texts import formatted_draft

LIFE_MS = 30_000


class TelegramDrafts:
    """Publishes ``draft`` events: ``draft_id thread text can_stop keep_on_stop for_ms``."""

    def __init__(self, bus: EventBus, places: TelegramPlaces) -> None:
        self._bus, self._places = bus, places

    def methods(self) -> tuple[ApiMethod, ...]:
        return (ApiMethod("sendMessageDraft", self._send_draft),)

    async def _send_draft(self, params: Params) -> MethodResult:
        formatted = formatted_draft(params)
        chat = self._places.writable(params)
        if chat.kind != "private":
            raise TelegramError(400, "Bad Request: drafts can be sent to private chats only")
        draft_id = integer(params.get("draft_id"), 0)
        if draft_id == 0:
            raise TelegramError(400, "Bad Request: draft_id must be non-zero")
        shown = {
            "draft_id": draft_id,
            "thread": self._places.thread(chat, params),
            "text": formatted.text,
            "can_stop": is_true(params.get("can_stop")),
            "keep_on_stop": is_true(params.get("keep_on_stop")),
            "for_ms": LIFE_MS,
        }
        self._bus.publish("draft", {"platform": "telegram", "chat": chat.id, **shown})
        return MethodResult(True)
