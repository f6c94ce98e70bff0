"""Methods that change a chat, as a table: the right that each takes, what Telegram says without it, and what it does.

Source: the descriptions at https://core.telegram.org/bots/api, each of which names the right
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from emulator.platforms.store import FakeChat
from emulator.platforms.telegram.calls import ApiMethod, MethodResult, Params
from emulator.platforms.telegram.methods.sender import TelegramSender


class GroupChange(NamedTuple):
    """*right* is a field of ChatAdministratorRights; "" where none is needed. *words* follow "not enough rights to"."""

    right: str
    words: str
    run: Callable[[FakeChat, Params], None]


def changing(sender: TelegramSender, table: Mapping[str, GroupChange]) -> tuple[ApiMethod, ...]:
    """The methods of *table*; each answers True, and the chat page shows the chat as it is then."""

    def method(change: GroupChange) -> Callable[[Params], Awaitable[MethodResult]]:
        async def run(params: Params) -> MethodResult:
            chat = sender.places.writable(params)
            sender.places.need(chat, change.right, change.words)
            change.run(chat, params)
            sender.publish_chat(chat)
            return MethodResult(True)

        return run

    return tuple(ApiMethod(name, method(change)) for name, change in table.items())
