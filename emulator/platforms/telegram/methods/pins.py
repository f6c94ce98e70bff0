"""Pinned messages, and what a group says of itself: its title and description.

Source: https://core.telegram.org/bots/api#pinchatmessage, #setchattitle, #setchatdescription
"""

from collections.abc import Collection

from emulator.platforms.store import FakeChat
from emulator.platforms.telegram.calls import ApiMethod, Params, TelegramError
from emulator.platforms.telegram.methods.changes import GroupChange, changing
from emulator.platforms.telegram.methods.sender import TelegramSender

MAX_TITLE, MAX_DESCRIPTION = 128, 255
_PIN = ("can_pin_messages", "manage pinned messages in the chat")


class TelegramPins:
    """``facts`` of the chat: ``pinned``, the ids of messages, the newest last; ``description``."""

    def __init__(self, sender: TelegramSender) -> None:
        self._sender, self._store = sender, sender.store

    def methods(self) -> tuple[ApiMethod, ...]:
        table = {
            "pinChatMessage": GroupChange(*_PIN, self._pin),
            "unpinChatMessage": GroupChange(*_PIN, self._unpin),
            "unpinAllChatMessages": GroupChange(*_PIN, lambda chat, params: self._keep(chat, [])),
            "setChatTitle": GroupChange("can_change_info", "change chat title", self._set_title),
            "setChatDescription": GroupChange("can_change_info", "set chat description", self._set_description),
        }
        return changing(self._sender, table)

    def _pin(self, chat: FakeChat, params: Params) -> None:
        message = self._sender.places.message(chat, params, "pin")
        self._keep(chat, [*unpinned(chat, {message.id}), message.id])

    def _unpin(self, chat: FakeChat, params: Params) -> None:
        """The newest, unless the call names one."""
        newest = chat.facts.get("pinned", [])[-1:]
        gone = newest if params.get("message_id") in (None, "") else [str(params["message_id"])]
        if not gone or gone[0] not in chat.facts.get("pinned", ()):
            raise TelegramError(400, "Bad Request: message to unpin not found")
        self._keep(chat, unpinned(chat, gone))

    def _keep(self, chat: FakeChat, pinned: list[str]) -> None:
        self._store.set_facts(chat, pinned=pinned)

    def _set_title(self, chat: FakeChat, params: Params) -> None:
        title = str(params.get("title") or "").strip()
        if chat.kind == "private":
            raise TelegramError(400, "Bad Request: can't change private chat title")
        if not 1 <= len(title) <= MAX_TITLE:
            raise TelegramError(
                400, "Bad Request: chat title is empty" if not title else "Bad Request: title is too long"
            )
        if title == chat.title:
            raise TelegramError(400, "Bad Request: chat title is not modified")
        self._store.rename(chat, title)

    def _set_description(self, chat: FakeChat, params: Params) -> None:
        words = str(params.get("description") or "").strip()
        if chat.kind == "private":
            raise TelegramError(400, "Bad Request: can't change private chat description")
        if len(words) > MAX_DESCRIPTION:
            raise TelegramError(400, "Bad Request: chat description is too long")
        if words == chat.facts.get("description", ""):
            raise TelegramError(400, "Bad Request: chat description is not modified")
        self._store.set_facts(chat, description=words)


def unpinned(chat: FakeChat, gone: Collection[str]) -> list[str]:
    """The pinned messages without those that are *gone*."""
    return [each for each in chat.facts.get("pinned", ()) if each not in gone]
