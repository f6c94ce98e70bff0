"""Managed bots: bots that a person gives to this one, which reads and renews their tokens.

A person creates one through :meth:`ManagedBots.create`; the update ``managed_bot`` tells. Its token works on this API:
only ``getMe`` and the methods of webhooks, as it has no chats here.

Source: https://core.telegram.org/bots/api#getmanagedbottoken, #managedbotupdated
"""

import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from emulator.platforms.errors import ActionRefused
from emulator.platforms.store import PlatformStore
from emulator.platforms.telegram.calls import ApiMethod, MethodResult, Params, TelegramError, integer, parse_nested
from emulator.platforms.telegram.objects import TelegramObjects
from emulator.platforms.telegram.updates import UpdateDelivery

_KEY = "telegram.managed"
MAX_ADDED = 10
TAP = "make the bot"  # what the button of a message that asks for a bot stands for


class ManagedBots:
    """The bots that this bot manages, as one row: id, name, username, owner and token of each."""

    def __init__(self, store: PlatformStore, objects: TelegramObjects, updates: UpdateDelivery) -> None:
        self._store, self._objects, self._updates = store, objects, updates
        self.adopt: Callable[[int, Mapping[str, Any]], None] = lambda bot_id, bot: (
            None
        )  # gives the bot chats of its own

    def methods(self) -> tuple[ApiMethod, ...]:
        return (
            ApiMethod("getManagedBotToken", self._get_token),
            ApiMethod("replaceManagedBotToken", self._replace_token),
            ApiMethod("setManagedBotAccessSettings", self._set_access),
        )

    def create(self, person_id: str, name: str, username: str) -> dict[str, Any]:
        """*person_id* confirms a new bot; returns its id and the id of the update."""
        person = self._store.person("telegram", person_id)
        if person is None:
            raise ActionRefused(f"there is no person with the id {person_id}")
        if not username.lower().endswith("bot") or not 5 <= len(username) <= 32:
            raise ActionRefused("a bot's username has 5 to 32 characters and ends with bot")
        bots = self._bots()
        if any(bot["username"].lower() == username.lower() for bot in bots.values()):
            raise ActionRefused(f"the username {username} is taken")
        bot_id = 7_900_000_001 + len(bots)
        bots[str(bot_id)] = {"name": name, "username": username, "owner": person_id, "token": _token(bot_id)}
        self._keep(bots)
        self.adopt(bot_id, bots[str(bot_id)])
        return {"bot": str(bot_id), "update_id": self._tell(bot_id, bots[str(bot_id)])}

    def by_token(self, token: str) -> dict[str, Any] | None:
        """The User object of the managed bot with *token*."""
        for bot_id, bot in self._bots().items():
            if bot["token"] == token:
                return _user(int(bot_id), bot)
        return None

    async def _get_token(self, params: Params) -> MethodResult:
        return MethodResult(self._managed(params)[1]["token"])

    async def _replace_token(self, params: Params) -> MethodResult:
        bot_id, bot = self._managed(params)
        bot["token"] = _token(bot_id)
        self._keep({**self._bots(), str(bot_id): bot})
        self.adopt(bot_id, bot)
        self._tell(bot_id, bot)
        return MethodResult(bot["token"])

    async def _set_access(self, params: Params) -> MethodResult:
        added = parse_nested(params.get("added_user_ids") or [])
        if not isinstance(added, list) or len(added) > MAX_ADDED:
            raise TelegramError(400, "Bad Request: too many users added")
        self._managed(params)
        return MethodResult(True)

    def _managed(self, params: Params) -> tuple[int, dict[str, Any]]:
        bot_id = integer(params.get("user_id"), 0)
        bot = self._bots().get(str(bot_id))
        if bot is None:
            raise TelegramError(400, "Bad Request: BOT_INVALID")
        return bot_id, bot

    def _tell(self, bot_id: int, bot: dict[str, Any]) -> int | None:
        person = self._store.person("telegram", bot["owner"])
        owner = self._objects.person(person) if person else self._objects.me
        update = {"user": owner, "bot": _user(bot_id, bot)}
        return self._updates.push("managed_bot", update, chat=None, person=bot["owner"])

    def _bots(self) -> dict[str, dict[str, Any]]:
        return dict(json.loads(self._store.get(_KEY) or "{}"))

    def _keep(self, bots: dict[str, dict[str, Any]]) -> None:
        self._store.put(_KEY, json.dumps(bots))


def request_in(params: Params) -> dict[str, str] | None:
    """What a message asks for, with its button: the name and the username of a bot to make; None: nothing."""
    given = parse_nested(params.get("reply_markup") or {})
    rows = given.get("keyboard") if isinstance(given, dict) else None
    keys = [key for row in rows or () if isinstance(row, list) for key in row if isinstance(key, dict)]
    for key in keys:
        if isinstance(wanted := key.get("request_managed_bot"), dict):
            name, username = wanted.get("suggested_name"), wanted.get("suggested_username")
            return {"text": str(key.get("text")), "name": str(name or "Bot"), "username": str(username or "")}
    return None


def _token(bot_id: int) -> str:
    return f"{bot_id}:{secrets.token_urlsafe(27)[:35]}"


def _user(bot_id: int, bot: dict[str, Any]) -> dict[str, Any]:
    return {"id": bot_id, "is_bot": True, "first_name": bot["name"], "username": bot["username"]}
