"""Which platforms the emulator has a fake of: an entry each, beside the adapters in ``shared.channels.registry``."""

import re

import msgspec


class FakeEntry(msgspec.Struct, frozen=True):
    """What is known of a fake before it runs.

    Attributes:
        title: the platform as people write it.
        module: where it is, a ``FakeModule`` of ``emulator.platforms.fakes``.
        method: examples of a method, for a fault of those calls alone.
        token: the form of the real platform's tokens, which don't belong into an emulator.
    """

    title: str
    module: str
    method: str
    token: re.Pattern[str]


FAKES = {
    "telegram": FakeEntry(
        title="Telegram",
        module="emulator.platforms.telegram.fake",
        method="such as sendMessage",
        # https://core.telegram.org/bots/api#authorizing-your-bot: digits, a colon, 35 characters.
        token=re.compile(r"\d{6,12}:[A-Za-z0-9_-]{35}"),
    ),
    "discord": FakeEntry(
        title="Discord",
        module="emulator.platforms.discord.fake",
        method="such as 'GET /gateway/bot'",
        # https://discord.com/developers/docs/reference#authentication: the bot's id in base64, a time stamp, an HMAC.
        token=re.compile(r"[A-Za-z0-9_-]{23,28}\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{27,}"),
    ),
}
PLATFORMS = tuple(FAKES)
