"""The User, Channel and Message objects of Discord's API, written from rows.

Source: https://discord.com/developers/docs/resources/user, resources/channel, resources/message
"""

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from emulator.platforms import files, reactions
from emulator.platforms.bot_names import bot_name
from emulator.platforms.discord.app import GUILD_ID, DiscordApp
from emulator.platforms.discord.attachments import Cdn
from emulator.platforms.store import FakeChat, FakeMessage, FakePerson, PlatformStore

DEFAULT, THREAD_CREATED, REPLY, SLASH_ANSWER = 0, 18, 19, 20  # the types of a message


class DiscordObjects:
    """Writes objects from rows; the author of the bot's messages is the application's bot user."""

    def __init__(self, store: PlatformStore, app: DiscordApp, cdn: Cdn) -> None:
        self._store, self._app, self._cdn = store, app, cdn

    @property
    def bot_user(self) -> dict[str, Any]:
        return {**_user(self._app.id, bot_name(self._store).lower(), None), "discriminator": "0001", "bot": True}

    @property
    def me(self) -> dict[str, Any]:
        """The bot user as it reads itself."""
        own = {"mfa_enabled": False, "locale": "en-US", "premium_type": 0, "email": None, "verified": True, "bio": ""}
        return {**self.bot_user, **own, "flags": 0}

    def user(self, person: FakePerson) -> dict[str, Any]:
        return _user(person.id, person.username, person.name)

    def channel(self, chat: FakeChat) -> dict[str, Any]:
        last = self._store.last_message(chat)
        common = {"id": chat.id, "flags": 0, "last_message_id": last.id if last else None}
        if chat.kind == "dm":
            people = [self._store.person("discord", member) for member in chat.members]
            return {**common, "type": 1, "recipients": [self.user(person) for person in people if person]}
        in_guild = {
            **common,
            "name": chat.title,
            "guild_id": GUILD_ID,
            "permissions": "2248473465835073",
            "rate_limit_per_user": 0,
        }
        return {**in_guild, **self._thread(chat)} if chat.kind == "thread" else {**in_guild, **_TEXT_CHANNEL}

    def _thread(self, chat: FakeChat) -> dict[str, Any]:
        facts = chat.facts
        made = _iso(facts.get("created_ms", 0))
        return {
            "type": facts.get("type", 11),
            "parent_id": facts["parent"],
            "owner_id": facts.get("owner", self._app.id),
            "message_count": facts.get("count", 0),
            "total_message_sent": facts.get("count", 0),
            "member_count": len(chat.members) + 1,
            "thread_metadata": {
                "archived": bool(facts.get("archived")),
                "auto_archive_duration": facts.get("auto_archive", 1440),
                "archive_timestamp": made,
                "locked": bool(facts.get("locked")),
                "create_timestamp": made,
            },
        }

    def message(self, chat: FakeChat, message: FakeMessage, *, with_reference: bool = True) -> dict[str, Any]:
        """The Message object; it nests the message that it replies to, one level deep."""
        person = None if message.is_bot else self._store.person("discord", message.author)
        detail = message.detail
        pings = detail.get("pings", [])
        wired: dict[str, Any] = {
            "id": message.id,
            "channel_id": chat.id,
            "type": detail.get("type", DEFAULT),
            "content": message.text,
            "author": self.user(person) if person else self.bot_user,
            "timestamp": _iso(message.created_ms),
            "edited_timestamp": _iso(message.edited_ms) if message.edited_ms is not None else None,
            "tts": False,
            "mention_everyone": "everyone" in pings,
            "mentions": [user for user in map(self.user_of, self._mentioned(message)) if user],
            "mention_roles": [ping.removeprefix("role:") for ping in pings if ping.startswith("role:")],
            "attachments": [self._cdn.attachment(chat.id, shown) for shown in files.of(detail)],
            "embeds": detail.get("embeds", []),
            "pinned": False,
            "flags": detail.get("flags", 0),
            "components": self._components(chat, detail),
        }
        if reacted := reactions.read(detail):
            wired["reactions"] = [self._reaction(emoji, ids) for emoji, ids in reacted.items()]
        if "poll" in detail:
            wired["poll"] = _poll(detail["poll"], message.created_ms)
        if (interaction := detail.get("interaction")) is not None and message.is_bot:
            wired.update(application_id=self._app.id, webhook_id=self._app.id)
            wired["interaction_metadata"] = self._interaction(interaction, detail)
        if (reply_to := detail.get("reply_to")) is not None:
            wired.update(self._reference(chat, reply_to, with_reference=with_reference))
        if (thread := self._store.chat("discord", message.id)) is not None and thread.kind == "thread":
            wired["thread"] = self.channel(thread)
        return {**wired, "nonce": message.nonce} if message.nonce is not None else wired

    def _components(self, chat: FakeChat, detail: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Numbered, and with addresses in place of the names of attachments."""
        media = {shown["name"]: self._media(chat, shown) for shown in files.of(detail)}
        return [_with_media(component, media) for component in numbered(detail.get("components", []))]

    def _media(self, chat: FakeChat, shown: Mapping[str, Any]) -> dict[str, Any]:
        known = self._cdn.attachment(chat.id, shown)
        address = {"id": known["id"], "url": known["url"], "proxy_url": known["proxy_url"]}
        shape = {"width": known.get("width"), "height": known.get("height")}
        return {**address, **shape, "content_type": known["content_type"], "attachment_id": known["id"]}

    def attachment(self, chat: FakeChat, shown: Mapping[str, Any]) -> dict[str, Any]:
        """The Attachment object of one entry of ``detail["files"]``."""
        return self._cdn.attachment(chat.id, shown)

    def _reference(self, chat: FakeChat, reply_to: str, *, with_reference: bool) -> dict[str, Any]:
        guild = {"guild_id": GUILD_ID} if chat.facts.get("guild") else {}
        reference = {"type": 0, "channel_id": chat.id, "message_id": reply_to, **guild}
        if not with_reference:
            return {"type": REPLY, "message_reference": reference}
        replied = self._store.message(chat, reply_to)
        nested = self.message(chat, replied, with_reference=False) if replied else None
        return {"type": REPLY, "message_reference": reference, "referenced_message": nested}

    def _interaction(self, interaction: str, detail: dict[str, Any]) -> dict[str, Any]:
        row = self._store.conn.execute("SELECT person FROM interactions WHERE id = ?", (interaction,)).fetchone()
        person = self._store.person("discord", row[0]) if row else None
        owners = {"1": person.id} if person else {}
        return {
            "id": interaction,
            "type": 2,
            "user": self.user(person) if person else self.bot_user,
            "authorizing_integration_owners": owners,
            "name": str(detail.get("command", "ask")),
            "command_type": 1,
        }

    def _reaction(self, emoji: str, ids: list[str]) -> dict[str, Any]:
        return {
            "emoji": emoji_object(emoji),
            "count": len(ids),
            "count_details": {"burst": 0, "normal": len(ids)},
            "burst_colors": [],
            "me": self._app.id in ids,
            "me_burst": False,
            "burst_me": False,
            "burst_count": 0,
        }

    def _mentioned(self, message: FakeMessage) -> list[str]:
        """The ids of the users named in a message, and of the person whose message it answers with a ping."""
        named = re.findall(r"<@!?(\d{1,20})>", message.text)
        return list(dict.fromkeys([*named, *message.detail.get("mentions", ())]))

    def user_of(self, user_id: str) -> dict[str, Any] | None:
        """The User object of a person or of the bot; None if there is no such user."""
        if user_id == self._app.id:
            return self.bot_user
        person = self._store.person("discord", user_id)
        return self.user(person) if person else None


_CHOOSES: Mapping[str, Any] = {"min_values": 1, "max_values": 1}
_FILLED_IN: Mapping[int, Mapping[str, Any]] = {
    **dict.fromkeys((3, 5, 6, 7, 8), _CHOOSES),
    11: {"description": None, "spoiler": False},
    13: {"name": None, "size": None, "spoiler": False},
    14: {"spacing": 1, "divider": True},
    17: {"accent_color": None, "spoiler": False},
}
_FILLED_IN_ITEM: Mapping[str, Any] = {"description": None, "spoiler": False}  # of a gallery
_TEXT_CHANNEL: dict[str, Any] = {
    "type": 0,
    "parent_id": None,
    "position": 1,
    "nsfw": False,
    "topic": None,
    "permission_overwrites": [],
}


def _user(user_id: str, username: str, global_name: str | None) -> dict[str, Any]:
    return {
        "id": user_id,
        "username": username,
        "global_name": global_name,
        "avatar": None,
        "discriminator": "0",
        "public_flags": 0,
        "flags": 0,
        "banner": None,
        "accent_color": None,
        "avatar_decoration_data": None,
        "collectibles": None,
        "primary_guild": None,
    }


def _poll(kept: Mapping[str, Any], made_ms: int) -> dict[str, Any]:
    """The Poll object; nobody has voted."""
    return {
        "question": {"text": kept["question"]},
        "answers": [
            {"answer_id": number, "poll_media": {"text": each}} for number, each in enumerate(kept["options"], 1)
        ],
        "expiry": _iso(made_ms + kept["hours"] * 3_600_000),
        "allow_multiselect": kept["multiple"],
        "layout_type": 1,
        "results": {"answer_counts": [], "is_finalized": False},
    }


def emoji_object(emoji: str) -> dict[str, Any]:
    """The partial Emoji object: a Unicode emoji, or ``name:id`` of a custom one."""
    name, _, emoji_id = emoji.partition(":")
    return {"id": emoji_id or None, "name": name}


def _iso(at_ms: int) -> str:
    seconds, milliseconds = divmod(at_ms, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{milliseconds:03d}000+00:00"


def numbered(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Components as Discord returns them: numbered in their order, from the outside in."""
    numbers = iter(range(1, 1000))
    return [_number(component, numbers) for component in given]


def _number(component: dict[str, Any], numbers: Iterator[int]) -> dict[str, Any]:
    shown = {**component, "id": component.get("id") or next(numbers)}
    if isinstance(inner := component.get("components"), list):
        shown["components"] = [_number(each, numbers) for each in inner]
    for key in ("accessory", "component"):
        if isinstance(component.get(key), dict):
            shown[key] = _number(component[key], numbers)
    return shown


def _with_media(value: Any, media: Mapping[str, Mapping[str, Any]]) -> Any:
    """*value* with every ``{"url": "attachment://name"}`` resolved, and with what Discord fills in."""
    if isinstance(value, list):
        return [_with_media(each, media) for each in value]
    if not isinstance(value, dict):
        return value
    name = str(value.get("url", "")).removeprefix("attachment://")
    if name in media and name != value.get("url"):
        return media[name]
    filled = (
        _FILLED_IN.get(value.get("type", 0), {}) if "type" in value else _FILLED_IN_ITEM if "media" in value else {}
    )
    return {**filled, **{key: _with_media(each, media) for key, each in value.items()}}
