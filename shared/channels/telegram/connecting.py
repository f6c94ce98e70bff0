"""Connects a bot with this Postroom: looks at what is registered, and registers ours.

Nothing that another program registered is taken without being asked for, and no update that waits is lost.

Source: https://core.telegram.org/bots/api (10.3): #getme, #setwebhook.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from shared.channels.base import Registration
from shared.channels.telegram import command_menu, webhooks
from shared.channels.telegram.channel import TelegramChannel
from shared.core.errors import ConfigInvalid, PermanentError, WrongState
from shared.runtime.http_client import Client

PORTS = (None, 443, 80, 88, 8443)  # those that Telegram calls


class Bot(msgspec.Struct):
    """A bot, by ``getMe``.

    Attributes:
        can_read_all_group_messages: its privacy mode is off.
        can_manage_bots: people can give it bots of their own.
    """

    id: int
    username: str = ""
    can_read_all_group_messages: bool = False
    can_manage_bots: bool = False


class BotState(msgspec.Struct, frozen=True):
    """What Telegram knows of a bot: its registration, and its commands with their descriptions."""

    bot: Bot
    registration: Registration
    commands: Mapping[str, str]


class Connected(msgspec.Struct, frozen=True):
    """What ``connect`` did.

    Attributes:
        before: as it was found.
        registration: as it is now.
        new_commands: the commands that were registered; empty: they were there already.
    """

    before: BotState
    registration: Registration
    new_commands: tuple[str, ...]


def address_of(url: str, account: str) -> str:
    """The address to register: *url*, with the path of our webhook where it has none.

    Raises:
        ConfigInvalid: Telegram would refuse it.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        raise ConfigInvalid(f"{url[:200]!r} is no address") from None
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise ConfigInvalid(f"{webhooks.shown(url)!r} should be an address such as https://bot.example.com")
    if parts.scheme == "https" and port not in PORTS:
        raise ConfigInvalid(f"Telegram calls the ports 443, 80, 88 and 8443 only, not {port}")
    path = parts.path if parts.path.strip("/") else f"/webhooks/{account}"
    return f"{parts.scheme}://{parts.netloc}{path}"


async def look(channel: TelegramChannel, client: Client, *, url: str) -> BotState:
    """What is registered for the bot, beside *url*, our own address; without any effect.

    Raises:
        PostroomError: Telegram can't be asked, or refuses the token.
    """
    try:
        bot = msgspec.convert(await channel.api.ask("getMe", {}, client), Bot)
    except msgspec.ValidationError:
        raise PermanentError("Telegram answers getMe without a bot: check the address of its API") from None
    registered = webhooks.registration_of(await channel.api.ask("getWebhookInfo", {}, client), url)
    return BotState(bot, registered, await command_menu.registered(channel.api, client))


async def connect(
    channel: TelegramChannel, client: Client, *, url: str, take_over: bool, menu: Mapping[str, str]
) -> Connected:
    """Register *url* and the commands of *menu*, where they differ.

    Raises:
        WrongState: another address is registered, and *take_over* is False. Nothing was changed.
        PostroomError: Telegram refuses it, or can't be asked.
    """
    before = await look(channel, client, url=url)
    if is_elsewhere(before.registration) and not take_over:
        raise WrongState(
            f"@{before.bot.username} is connected elsewhere: Telegram sends its updates to {before.registration.url}. "
            "Nothing was changed. Two programs can't share a bot"
        )
    await channel.register(url, client)
    new = await command_menu.offer(channel.api, client, menu, before.commands)
    after = webhooks.registration_of(await channel.api.ask("getWebhookInfo", {}, client), url)
    return Connected(before, after, new)


def is_elsewhere(registration: Registration) -> bool:
    """Whether another program's address is registered."""
    return registration.url is not None and registration.is_ours is False
