"""How an app of Discord is set up: the settings of an account, and the steps on its page in the docs."""

import re

from pydantic import Field, SecretStr, field_validator

from shared.channels import standard_webhooks
from shared.channels.account_settings import AccountSettings
from shared.channels.manifest import Manifest, ManifestSetting


class DiscordSettings(AccountSettings):
    """Read from the environment: ``DISCORD_`` and the field's name in capitals, such as ``DISCORD_PUBLIC_KEY``."""

    env_prefix = "DISCORD_"

    public_key: str = Field(default=...)
    application_id: str = Field(default=..., pattern=r"^[0-9]{1,20}$")
    bot_token: SecretStr = Field(default=...)
    api_base: str = Field(default="https://discord.com/api/v10", pattern=r"^https?://[^/?#]+(/[^?#]*)?$")
    webhook_url: str = Field(default="", pattern=r"^(https?://[^/?#]+/[^?#]*)?$")
    relay_secret: SecretStr | None = None
    threads: bool = False
    reply_button: bool = False
    link_previews: bool = False

    @field_validator("public_key")
    @classmethod
    def _key(cls, value: str) -> str:
        if not re.fullmatch(r"[0-9a-fA-F]{64}", value):
            raise ValueError("should be the application's public key: 64 hexadecimal digits")
        return value

    @field_validator("relay_secret")
    @classmethod
    def _secret(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not re.fullmatch(standard_webhooks.SECRET, value.get_secret_value()):
            raise ValueError("should be 24 to 64 bytes in base64, as a rule with whsec_ before them")
        return value

    @field_validator("bot_token")
    @classmethod
    def _token(cls, value: SecretStr) -> SecretStr:
        if not re.fullmatch(r"[A-Za-z0-9._=-]+", value.get_secret_value()):
            raise ValueError("should be the bot's token from the developer portal")
        return value


MANIFEST = Manifest(
    platform="discord",
    title="Discord",
    bot_id_setting="APPLICATION_ID",
    settings=(
        ManifestSetting("APPLICATION_ID", "The application's id, on its page General Information."),
        ManifestSetting("PUBLIC_KEY", "The application's public key, on the same page: 64 hexadecimal digits."),
        ManifestSetting("BOT_TOKEN", "The bot's token, on the page Bot.", is_secret=True),
        ManifestSetting(
            "WEBHOOK_URL",
            "The Interactions Endpoint URL, so that Postroom says when another program takes the app.",
            is_needed=False,
        ),
        ManifestSetting(
            "RELAY_SECRET", "The secret of the Gateway relay, where one runs.", is_secret=True, is_needed=False
        ),
        ManifestSetting(
            "THREADS",
            "1 answers each mention in a server's channel in a thread of its own; it needs the Gateway relay.",
            is_needed=False,
        ),
        ManifestSetting(
            "REPLY_BUTTON",
            "1 puts a Reply button under each answer to a command; it opens a form, and needs no relay.",
            is_needed=False,
        ),
        ManifestSetting(
            "LINK_PREVIEWS",
            "1 lets Discord fetch the links in answers and show a preview; without it, Discord fetches no address "
            "before a person clicks.",
            is_needed=False,
        ),
        ManifestSetting("API_BASE", "Another address of Discord's API, for tests.", is_needed=False),
    ),
    steps=(
        "Make an application at <https://discord.com/developers/applications>. Its page *General Information* has the "
        "application's id and the public key.",
        "Page *Bot*: *Reset Token*, and keep the token.",
        "Page *Installation*: allow both contexts; for servers the scopes `applications.commands` and `bot`, with the "
        "permissions *Send Messages*, *Send Messages in Threads*, *Read Message History*, *Add Reactions* and "
        "*Attach Files*.",
        "Give ingest, dispatch, deliver and sweep the settings below, and start them ([on one host](../first-bot.md)).",
        "Let an HTTPS proxy with a public name serve ingest.",
        "Connect the app: it is safe to repeat, and an app of another program stays with it. Discord calls the address "
        "at once, so Postroom must be running.",
        "Open the install link of the page *Installation*, and add the app to your server.",
        "Register the commands with `emulator channel discord register`: it is safe to repeat, and commands of other "
        "tools stay.",
        "In a channel, or in a direct chat with the app: `/ask hello`.",
        "For mentions and direct messages without a command, run the [Gateway relay](../discord-relay.md).",
    ),
    connect="emulator channel discord connect --url https://bot.example.com",
)
