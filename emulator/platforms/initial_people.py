"""What the fake platforms start with: Ana and Ben, a group, a server, and the bot itself."""

import base64
import hashlib
import json
import secrets
from dataclasses import dataclass

import msgspec
from nacl.signing import SigningKey

from emulator.platforms.store import FakeChat, FakePerson, PlatformStore

BOT_NAME = "Postroom"
BOT_USERNAME = "postroom_bot"
GUILD_ID = "1290000000000000100"
CHANNEL_ID = "1290000000000000200"
GROUP_ID = "-4001002003"

_TELEGRAM = (FakePerson("5000000001", "Ana", "ana_ruiz"), FakePerson("5000000002", "Ben", "ben_k"))
_DISCORD = (FakePerson("80000000000000001", "Ana", "ana.ruiz"), FakePerson("80000000000000002", "Ben", "ben.k"))
_DMS = {"80000000000000001": "1290000000000000400", "80000000000000002": "1290000000000000401"}


@dataclass(frozen=True, slots=True)
class TelegramBot:
    """The bot on Telegram. Its token is invented, in the real form."""

    id: int
    token: str
    webhook_secret: str
    name: str = BOT_NAME
    username: str = BOT_USERNAME


class DiscordApp(msgspec.Struct, frozen=True):
    """The application on Discord; its bot user has the same id."""

    id: str
    token: str
    key: SigningKey

    @property
    def public_key(self) -> str:
        """The public key as Discord's portal shows it, in hexadecimal."""
        return self.key.verify_key.encode().hex()

    @property
    def relay_secret(self) -> str:
        """The secret that the relay of the fake Gateway shares with ``ingest``."""
        return "whsec_" + base64.b64encode(hashlib.sha256(b"relay" + self.key.encode()).digest()).decode()


def add_initial_people(store: PlatformStore) -> None:
    """Add the first people and chats; rows that exist stay unchanged."""
    for person in _TELEGRAM:
        store.add_person("telegram", person)
        store.add_chat(FakeChat("telegram", person.id, "private", person.name, (person.id,), {}))
    store.add_chat(
        FakeChat("telegram", GROUP_ID, "group", "Lunch group", tuple(p.id for p in _TELEGRAM), {"started": True})
    )
    for person in _DISCORD:
        store.add_person("discord", person)
        store.add_chat(FakeChat("discord", _DMS[person.id], "dm", person.name, (person.id,), {}))
    guild = {"guild": GUILD_ID}
    store.add_chat(FakeChat("discord", CHANNEL_ID, "channel", "general", tuple(p.id for p in _DISCORD), guild))


def telegram_bot(store: PlatformStore) -> TelegramBot:
    """The bot's identity, invented once and stored."""
    made = {"id": 7_000_000_000 + secrets.randbelow(900_000_000), "token": secrets.token_urlsafe(27)[:35]}
    kept = json.loads(store.get_or_put("telegram.bot", json.dumps(made)))
    secret = store.get_or_put("telegram.webhook_secret", secrets.token_urlsafe(32))
    return TelegramBot(kept["id"], f"{kept['id']}:{kept['token']}", secret, bot_name(store), bot_username(store))


def name_bot(store: PlatformStore, account: str) -> None:
    """Give the bot of a further account, such as ``telegram.sales``, a name of its own: ``Sales``, ``sales_bot``."""
    word = account.partition(".")[2]
    store.get_or_put("bot.name", word.replace("_", " ").title())
    store.get_or_put("bot.username", f"{word}_bot")


def bot_name(store: PlatformStore) -> str:
    """What people read as the bot's name."""
    return store.get("bot.name") or BOT_NAME


def bot_username(store: PlatformStore) -> str:
    """What people write behind an @ to mention the bot on Telegram."""
    return store.get("bot.username") or BOT_USERNAME


def discord_app(store: PlatformStore) -> DiscordApp:
    """The application's identity, invented once and stored."""
    app_id = store.get_or_put("discord.application", str(1_290_000_000_000_000_000 + secrets.randbelow(10**15)))
    head = base64.urlsafe_b64encode(app_id.encode()).decode().rstrip("=")
    token = store.get_or_put("discord.token", f"{head}.{secrets.token_urlsafe(4)}.{secrets.token_urlsafe(28)}")
    seed = store.get_or_put("discord.seed", secrets.token_hex(32))
    return DiscordApp(id=app_id, token=token, key=SigningKey(bytes.fromhex(seed)))
