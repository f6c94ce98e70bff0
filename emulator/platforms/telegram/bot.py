"""The bot on the fake Telegram, and what its chats begin with: Ana and Ben, and a group."""

import json
import secrets
from dataclasses import dataclass

from emulator.platforms.bot_names import BOT_NAME, BOT_USERNAME, bot_name, bot_username
from emulator.platforms.store import FakeChat, FakePerson, PlatformStore

GROUP_ID = "-4001002003"
_PEOPLE = (FakePerson("5000000001", "Ana", "ana_ruiz"), FakePerson("5000000002", "Ben", "ben_k"))


@dataclass(frozen=True, slots=True)
class TelegramBot:
    """The bot on Telegram. Its token is invented, in the real form."""

    id: int
    token: str
    webhook_secret: str
    name: str = BOT_NAME
    username: str = BOT_USERNAME


def telegram_bot(store: PlatformStore) -> TelegramBot:
    """The bot's identity, invented once and stored."""
    made = {"id": 7_000_000_000 + secrets.randbelow(900_000_000), "token": secrets.token_urlsafe(27)[:35]}
    kept = json.loads(store.get_or_put("telegram.bot", json.dumps(made)))
    secret = store.get_or_put("telegram.webhook_secret", secrets.token_urlsafe(32))
    return TelegramBot(kept["id"], f"{kept['id']}:{kept['token']}", secret, bot_name(store), bot_username(store))


def add_people(store: PlatformStore) -> None:
    """Add the first people and chats; rows that exist stay unchanged."""
    for person in _PEOPLE:
        store.add_person("telegram", person)
        store.add_chat(FakeChat("telegram", person.id, "private", person.name, (person.id,), {}))
    members = tuple(person.id for person in _PEOPLE)
    store.add_chat(FakeChat("telegram", GROUP_ID, "group", "Lunch group", members, {"started": True}))


def chat_then(platform_id: str, title: str, *, is_group: bool) -> FakeChat:
    """A chat of the past; its members join as they speak."""
    in_group = "supergroup" if platform_id.startswith("-100") else "group"
    return FakeChat("telegram", platform_id, in_group if is_group else "private", title, (), {"started": True})
