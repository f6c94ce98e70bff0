"""The application on the fake Discord, and what its chats begin with: Ana and Ben, and a server with one channel."""

import base64
import hashlib
import secrets

import msgspec
from nacl.signing import SigningKey

from emulator.platforms.store import FakeChat, FakePerson, PlatformStore

GUILD_ID = "1290000000000000100"
CHANNEL_ID = "1290000000000000200"
_PEOPLE = (FakePerson("80000000000000001", "Ana", "ana.ruiz"), FakePerson("80000000000000002", "Ben", "ben.k"))
_DMS = {"80000000000000001": "1290000000000000400", "80000000000000002": "1290000000000000401"}


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


def discord_app(store: PlatformStore) -> DiscordApp:
    """The application's identity, invented once and stored."""
    app_id = store.get_or_put("discord.application", str(1_290_000_000_000_000_000 + secrets.randbelow(10**15)))
    head = base64.urlsafe_b64encode(app_id.encode()).decode().rstrip("=")
    token = store.get_or_put("discord.token", f"{head}.{secrets.token_urlsafe(4)}.{secrets.token_urlsafe(28)}")
    seed = store.get_or_put("discord.seed", secrets.token_hex(32))
    return DiscordApp(id=app_id, token=token, key=SigningKey(bytes.fromhex(seed)))


def add_people(store: PlatformStore) -> None:
    """Add the first people and chats; rows that exist stay unchanged."""
    for person in _PEOPLE:
        store.add_person("discord", person)
        store.add_chat(FakeChat("discord", _DMS[person.id], "dm", person.name, (person.id,), {}))
    members = tuple(person.id for person in _PEOPLE)
    store.add_chat(FakeChat("discord", CHANNEL_ID, "channel", "general", members, {"guild": GUILD_ID}))


def chat_then(platform_id: str, title: str, *, is_group: bool) -> FakeChat:
    """A chat of the past; its members join as they speak."""
    facts = {"guild": GUILD_ID} if is_group else {"started": True}
    return FakeChat("discord", platform_id, "channel" if is_group else "dm", title, (), facts)
