"""Which platforms the emulator has a fake of: an entry each, beside the adapters in ``shared.channels.registry``."""

import re

import msgspec

from shared.core.accounts import platform_of


class FakeEntry(msgspec.Struct, frozen=True):
    """What is known of a fake before it runs.

    Attributes:
        title: the platform as people write it.
        module: where it is, a ``FakeModule`` of ``emulator.platforms.fakes``.
        counts_by_chat: it numbers the messages of each chat; else an id is of one message of all chats.
        method: examples of a method, for a fault of those calls alone.
        colour: of its tab on the chat page.
        token: the form of the real platform's tokens, which don't belong into an emulator.
    """

    title: str
    module: str
    method: str
    colour: str
    token: re.Pattern[str]
    counts_by_chat: bool = False


FAKES = {
    "telegram": FakeEntry(
        title="Telegram",
        module="emulator.platforms.telegram.fake",
        method="such as sendMessage",
        colour="#2ba1e8",
        # https://core.telegram.org/bots/api#authorizing-your-bot: digits, a colon, 35 characters.
        token=re.compile(r"\d{6,12}:[A-Za-z0-9_-]{35}"),
        counts_by_chat=True,
    ),
    "discord": FakeEntry(
        title="Discord",
        module="emulator.platforms.discord.fake",
        method="such as 'GET /gateway/bot'",
        colour="#5865f2",
        # https://discord.com/developers/docs/reference#authentication: the bot's id in base64, a time stamp, an HMAC.
        token=re.compile(r"[A-Za-z0-9_-]{23,28}\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{27,}"),
    ),
}
PLATFORMS = tuple(FAKES)


def names() -> str:
    """The platforms in a sentence: ``telegram or discord``."""
    return f"{', '.join(PLATFORMS[:-1])} or {PLATFORMS[-1]}"


def unknown(platform: str) -> str:
    """What a person reads who names another."""
    return f"there is no platform {platform!r}; choose {names()}"


def place_of(account: str, chat: str) -> dict[str, str]:
    """What ``/api/why`` needs beside the id of a message in *chat*."""
    return {"platformId": chat} if FAKES[platform_of(account)].counts_by_chat else {}
