"""The methods with which a bot sends polls, places, contacts and dice, ends a poll, and moves a live location.

Source: https://core.telegram.org/bots/api#sendpoll, #stoppoll, #editmessagelivelocation
"""

from collections.abc import Awaitable, Callable
from typing import Any

from emulator.platforms.store import FakeChat, FakeMessage
from emulator.platforms.telegram import contents
from emulator.platforms.telegram.calls import ApiMethod, MethodResult, Params, TelegramError, keyboard
from emulator.platforms.telegram.methods.sender import TelegramSender
from emulator.platforms.telegram.updates import UpdateDelivery


class TelegramContentMessages:
    """One sender for all; :mod:`..contents` says what each holds."""

    def __init__(self, sender: TelegramSender, updates: UpdateDelivery) -> None:
        self._sender, self._updates = sender, updates
        self._places = sender.places

    def methods(self) -> tuple[ApiMethod, ...]:
        kinds = {**contents.CONTENTS, "sendPoll": None}
        return (
            *(ApiMethod(name, self._sending(made)) for name, made in kinds.items()),
            ApiMethod("stopPoll", self._stop_poll),
            ApiMethod("editMessageLiveLocation", self._move),
            ApiMethod("stopMessageLiveLocation", self._stop_moving),
        )

    def _sending(self, made: Callable[[Params], dict[str, Any]] | None) -> Callable[[Params], Awaitable[MethodResult]]:
        async def send(params: Params) -> MethodResult:
            now_ms = self._sender.clock.now_ms()
            content = {"content": made(params)} if made else {"poll": contents.poll(params, now_ms=now_ms)}
            buttons = keyboard(params)
            chat = self._places.writable(params)
            placed = self._sender.placed(chat, params, buttons)
            self._places.flood.take(chat)
            return self._sender.sent(chat, "", {**placed, **content})

        return send

    async def _stop_poll(self, params: Params) -> MethodResult:
        """End a poll; the result is its last state, which the bot gets as an update too."""
        buttons, chat = keyboard(params), self._places.writable(params)
        message = self._places.own_message(chat, params, "with poll to stop")
        poll = message.detail.get("poll")
        if poll is None:
            raise TelegramError(400, "Bad Request: message with poll to stop not found")
        if poll.get("closed"):
            raise TelegramError(400, "Bad Request: poll has already been closed")
        closed = {**poll, "closed": True}
        self._sender.edit(chat, message, buttons, poll=closed)
        wired = contents.wired_poll(closed)
        self._updates.push("poll", wired, chat=chat.id, person=None)
        return MethodResult(wired)

    async def _move(self, params: Params) -> MethodResult:
        place, buttons = contents.location(params), keyboard(params)
        chat, message = self._live(params)
        before = message.detail["content"]["location"]
        return self._sender.edit(chat, message, buttons, content={"location": {**before, **place["location"]}})

    async def _stop_moving(self, params: Params) -> MethodResult:
        buttons = keyboard(params)
        chat, message = self._live(params)
        still = {key: value for key, value in message.detail["content"]["location"].items() if key != "live_period"}
        return self._sender.edit(chat, message, buttons, content={"location": still})

    def _live(self, params: Params) -> tuple[FakeChat, FakeMessage]:
        chat = self._places.writable(params)
        message = self._places.own_message(chat, params)
        if "live_period" not in message.detail.get("content", {}).get("location", {}):
            raise TelegramError(400, "Bad Request: message can't be edited")
        return chat, message
