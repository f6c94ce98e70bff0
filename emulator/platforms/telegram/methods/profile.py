"""What a bot says of itself: its name, its descriptions, its menu button, the rights that it asks for.

Source: https://core.telegram.org/bots/api#setmyname, #setmydescription, #setchatmenubutton
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from emulator.platforms.store import PlatformStore
from emulator.platforms.telegram import standing
from emulator.platforms.telegram.calls import ApiMethod, MethodResult, Params, TelegramError, parse_nested
from emulator.platforms.telegram.objects import TelegramObjects


class ProfileValue(NamedTuple):
    """A value behind a ``set…`` and a ``get…``: its parameter, the parameters that tell one from another, its limit."""

    parameter: str
    by: tuple[str, ...]
    most: int = 0


_VALUES: Mapping[str, ProfileValue] = {
    "MyName": ProfileValue("name", ("language_code",), 64),
    "MyDescription": ProfileValue("description", ("language_code",), 512),
    "MyShortDescription": ProfileValue("short_description", ("language_code",), 120),
    "MyDefaultAdministratorRights": ProfileValue("rights", ("for_channels",)),
    "ChatMenuButton": ProfileValue("menu_button", ("chat_id",)),
}


class TelegramProfile:
    """Keeps each value in a row; an empty one takes it back."""

    def __init__(self, store: PlatformStore, objects: TelegramObjects) -> None:
        self._store, self._objects = store, objects

    def methods(self) -> tuple[ApiMethod, ...]:
        pairs = (
            (ApiMethod(f"set{each}", self._set(each)), ApiMethod(f"get{each}", self._get(each))) for each in _VALUES
        )
        return tuple(method for pair in pairs for method in pair)

    def _set(self, name: str) -> Callable[[Params], Awaitable[MethodResult]]:
        value = _VALUES[name]

        async def put(params: Params) -> MethodResult:
            given = params.get(value.parameter) or ""
            if value.most and len(str(given)) > value.most:
                raise TelegramError(400, f"Bad Request: bot {value.parameter.replace('_', ' ')} is too long")
            kept = str(given) if value.most else parse_nested(given or "null")
            self._store.put(_key(name, params), json.dumps(kept))
            return MethodResult(True)

        return put

    def _get(self, name: str) -> Callable[[Params], Awaitable[MethodResult]]:
        value = _VALUES[name]

        async def read(params: Params) -> MethodResult:
            kept = json.loads(self._store.get(_key(name, params)) or "null")
            if name == "MyDefaultAdministratorRights":
                return MethodResult(standing.booleans("ChatAdministratorRights", kept or {}))
            if name == "ChatMenuButton":
                return MethodResult(kept or {"type": "commands"})
            default = self._objects.me["first_name"] if name == "MyName" else ""
            return MethodResult({value.parameter: kept or default})

        return read


def _key(name: str, params: Params) -> str:
    told_apart: list[Any] = [str(params.get(each) or "") for each in _VALUES[name].by]
    return f"telegram.{name}" + json.dumps(told_apart)
