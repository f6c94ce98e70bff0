"""The method with which a bot sends a poll.

Source: https://core.telegram.org/bots/api#sendpoll, #poll; wording after the open source of the server.
"""

from typing import Any

from emulator.platforms.bus import EventBus
from emulator.platforms.config import Clock
from emulator.platforms.initial_people import TelegramBot
from emulator.platforms.store import PlatformStore
from emulator.platforms.telegram.calls import (
    ApiMethod,
    MethodResult,
    Params,
    TelegramError,
    integer,
    is_true,
    keyboard,
    parse_nested,
)
from emulator.platforms.telegram.objects import TelegramObjects
from emulator.platforms.telegram.places import TelegramPlaces

MAX_QUESTION, MAX_OPTION, MAX_OPTIONS = 300, 100, 12
MIN_OPEN_S, MAX_OPEN_S = 5, 2_628_000


class TelegramPollMessages:
    """Sends polls. People of the fake Telegram read them, and do not vote."""

    def __init__(
        self,
        clock: Clock,
        store: PlatformStore,
        bus: EventBus,
        bot: TelegramBot,
        objects: TelegramObjects,
        places: TelegramPlaces,
    ) -> None:
        self._clock, self._store, self._bus, self._bot = clock, store, bus, bot
        self._objects, self._places = objects, places

    def methods(self) -> tuple[ApiMethod, ...]:
        return (ApiMethod("sendPoll", self._send_poll),)

    async def _send_poll(self, params: Params) -> MethodResult:
        poll, buttons = _poll_of(params), keyboard(params)
        chat = self._places.writable(params)
        given = {"thread": self._places.thread(chat, params), "reply_to": self._places.reply_to(chat, params)}
        self._places.flood.take(chat)
        number = self._store.next_message_id(chat)
        detail = {key: value for key, value in {**given, "keyboard": buttons}.items() if value is not None}
        message = self._store.add_message(
            chat,
            str(number),
            author=str(self._bot.id),
            is_bot=True,
            text="",
            detail={**detail, "poll": {**poll, "id": f"{abs(int(chat.id))}{number}"}},
            now_ms=self._clock.now_ms(),
        )
        self._bus.publish("message", {"platform": "telegram", "chat": chat.id, "id": message.id})
        return MethodResult(self._objects.message(chat, message))


def _poll_of(params: Params) -> dict[str, Any]:
    """What ``detail["poll"]`` keeps. Raises 400."""
    question = str(params.get("question") or "").strip()
    given = parse_nested(params.get("options", "[]"))
    if not question:
        raise TelegramError(400, "Bad Request: poll question must be non-empty")
    if len(question) > MAX_QUESTION:
        raise TelegramError(400, f"Bad Request: poll question length must not exceed {MAX_QUESTION}")
    if not isinstance(given, list):
        raise TelegramError(400, "Bad Request: can't parse options JSON object")
    options = [str(each.get("text") if isinstance(each, dict) else each or "").strip() for each in given]
    if not options:
        raise TelegramError(400, "Bad Request: poll must have at least 1 option")
    if len(options) > MAX_OPTIONS:
        raise TelegramError(400, f"Bad Request: poll can't have more than {MAX_OPTIONS} options")
    if not all(options):
        raise TelegramError(400, "Bad Request: poll options must be non-empty")
    if any(len(each) > MAX_OPTION for each in options):
        raise TelegramError(400, f"Bad Request: poll options length must not exceed {MAX_OPTION}")
    open_s = integer(params.get("open_period"), 0)
    if open_s and not MIN_OPEN_S <= open_s <= MAX_OPEN_S:
        raise TelegramError(400, "Bad Request: invalid poll open period")
    return {
        "question": question,
        "options": options,
        "multiple": is_true(params.get("allows_multiple_answers")),
        "anonymous": params.get("is_anonymous") in (None, "") or is_true(params["is_anonymous"]),
        "open_s": open_s,
    }
