"""The commands that Telegram lists for people: registered where they differ, beside those that others registered.

Source: https://core.telegram.org/bots/api (10.3): #getmycommands, #setmycommands.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from shared.channels import sanitize
from shared.channels.telegram.bot_api import BotApi
from shared.runtime.http_client import Client

MOST_COMMANDS = 100


class _Command(msgspec.Struct):
    command: str
    description: str = ""


async def registered(api: BotApi, client: Client) -> dict[str, str]:
    """The commands that Telegram has for the bot, with their descriptions.

    Raises:
        PostroomError: Telegram can't be asked.
    """
    return commands_of(await api.ask("getMyCommands", {}, client))


async def offer(api: BotApi, client: Client, menu: Mapping[str, str], known: Mapping[str, str]) -> tuple[str, ...]:
    """Register what *known*, the registered commands, lacks of *menu*; the names that are new.

    Raises:
        PostroomError: Telegram refuses it, or can't be asked.
    """
    new = missing_commands(known, menu)
    if new:
        both = {**known, **menu}
        listed = [{"command": name, "description": words} for name, words in both.items()][:MOST_COMMANDS]
        await api.ask("setMyCommands", {"commands": listed}, client)
    return new


def missing_commands(known: Mapping[str, str], menu: Mapping[str, str]) -> tuple[str, ...]:
    """The commands of *menu* that are not registered with the same words."""
    return tuple(name for name, words in menu.items() if known.get(name) != words)


def commands_of(found: Any) -> dict[str, str]:
    """The commands in an answer of ``getMyCommands``; none in one that is malformed."""
    try:
        return {each.command: sanitize.name(each.description) for each in msgspec.convert(found, list[_Command])}
    except msgspec.ValidationError:
        return {}
