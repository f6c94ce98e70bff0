"""The data of the chat page and the terminal: people, conversations, transcripts, deliveries and calls, as JSON."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from emulator.base.fakes import FAKES
from emulator.platforms import files, page_files, reactions
from emulator.platforms.bot_names import bot_name, bot_username
from emulator.platforms.discord import component_tree
from emulator.platforms.discord.component_tree import BUTTON
from emulator.platforms.fakes import PlatformFake
from emulator.platforms.store import FakeChat, FakeMessage, PlatformStore
from emulator.platforms.telegram import contents, standing

PREVIEW = 80
PIECE = 150  # messages that the page gets at once


class PageData:
    """Reads the store; changes nothing."""

    def __init__(self, store: PlatformStore, fakes: Mapping[str, PlatformFake]) -> None:
        self._store, self._fakes = store, fakes

    def state(self) -> dict[str, Any]:
        """All people and conversations of all platforms."""
        return {
            "bot": {"name": bot_name(self._store), "username": bot_username(self._store)},
            **{name: self._platform(name) for name in self._fakes},
        }

    def _platform(self, platform: str) -> dict[str, Any]:
        chats = [self.chat(chat) for chat in self._store.chats(platform)]
        entry, fake = FAKES[platform], self._fakes[platform]
        facts = {"title": entry.title, "colour": entry.colour, "mention": fake.mention, "can": fake.can}
        return {**facts, "people": self.people(platform), "chats": chats}

    def people(self, platform: str) -> list[dict[str, Any]]:
        """All people of the platform."""
        return [{"id": p.id, "name": p.name, "username": p.username} for p in self._store.people(platform)]

    def chat(self, chat: FakeChat) -> dict[str, Any]:
        """One entry of the list of conversations."""
        last = self._store.last_message(chat)
        return {
            "id": chat.id,
            "kind": chat.kind,
            "title": chat.title,
            "members": list(chat.members),
            "topics": _topics(chat),
            "general": _general(chat),
            "parent": chat.facts.get("parent"),
            "blocked": bool(chat.facts.get("blocked")),
            "admin": standing.of(chat, standing.BOT)["status"] == "administrator",
            "description": chat.facts.get("description", ""),
            "pinned": self._pinned(chat),
            "preview": _preview(last) if last else "",
            "last_ms": last.created_ms if last else None,
            "last_is_bot": last.is_bot if last else False,
        }

    def _pinned(self, chat: FakeChat) -> list[dict[str, Any]]:
        """The pinned messages that are still there, the newest first, in one line each."""
        found = (self._store.message(chat, each) for each in reversed(chat.facts.get("pinned", ())))
        return [{"id": each.id, "preview": _preview(each)} for each in found if each is not None]

    def older(self, chat: FakeChat, *, before: int) -> dict[str, Any]:
        """Messages before the number *before*, oldest first, and whether there are older ones."""
        return self._piece(self._store.transcript(chat, limit=PIECE + 1, before=before), PIECE)

    def newer(self, chat: FakeChat, *, after: int) -> dict[str, Any]:
        """All messages after the number *after*, oldest first."""
        return {"messages": [self.message(each) for each in self._store.transcript(chat, limit=-1, after=after)]}

    def _piece(self, found: list[FakeMessage], limit: int) -> dict[str, Any]:
        return {"messages": [self.message(message) for message in found[-limit:]], "has_older": len(found) > limit}

    def transcript(self, chat: FakeChat, *, limit: int = 500) -> dict[str, Any]:
        """A conversation with its last messages, and their deliveries and calls."""
        return {
            "chat": self.chat(chat),
            **self._piece(self._store.transcript(chat, limit=limit + 1), limit),
            "deliveries": self.deliveries(chat.platform, chat.id),
            "calls": self._store.requests.calls(chat.platform, chat=chat.id, limit=300),
            "commands": self.commands(chat.platform),
        }

    def commands(self, platform: str) -> list[dict[str, Any]]:
        """The bot's commands as it registered them at the platform."""
        keys = (f"{platform}.commands", f"{platform}.commands.guild")
        kept = [command for key in keys for command in json.loads(self._store.get(key) or "[]")]
        return [command for command in kept if isinstance(command, dict)]

    def deliveries(self, platform: str, chat: str | None = None) -> list[dict[str, Any]]:
        return self._fakes[platform].deliveries(chat)

    def message(self, message: FakeMessage) -> dict[str, Any]:
        """One message as the platform's app shows it."""
        author = None if message.is_bot else self._store.person(message.platform, message.author)
        detail = message.detail
        return {
            "platform": message.platform,
            "chat": message.chat,
            "id": message.id,
            "seq": message.seq,
            "author": {
                "id": message.author,
                "name": author.name if author else bot_name(self._store),
                "is_bot": message.is_bot,
            },
            "text": "\n".join(_texts(message)),
            "created_ms": message.created_ms,
            "edited_ms": message.edited_ms,
            "entities": detail.get("entities", []),
            "reply_to": detail.get("reply_to"),
            "thread": detail.get("thread"),
            "reactions": list(reactions.read(detail)),
            "reacted": reactions.read(detail),
            "files": [{**file, "is_shown": page_files.is_shown(file["mime"])} for file in files.of(detail)],
            "album": detail.get("media_group_id"),
            "poll": detail.get("poll"),
            "content": detail.get("content"),
            "forwarded_from": self._forwarded_from(message.platform, detail.get("origin")),
            "keyboard": detail.get("keyboard") or _keyboard(detail.get("components", [])),
            "state": detail.get("state"),
            "command": detail.get("command"),
            "pings": detail.get("pings", []),
            "would_ping": detail.get("would_ping", []),
            "interaction": detail.get("interaction"),
            "is_ephemeral": bool(detail.get("flags", 0) & 64),
            "only_for": detail.get("for"),
        }

    def _forwarded_from(self, platform: str, origin: Mapping[str, Any] | None) -> str | None:
        """The name of the author of a forwarded message."""
        if origin is None:
            return None
        person = self._store.person(platform, origin["author"] or "")
        return person.name if person else bot_name(self._store)

    def find(self, platform: str, chat_id: str, message_id: str) -> dict[str, Any] | None:
        """The message of a live event, or None if it is deleted."""
        chat = self._store.chat(platform, chat_id)
        message = self._store.message(chat, message_id) if chat else None
        return self.message(message) if message else None


def _preview(message: FakeMessage) -> str:
    """The message in one line: its text, or its first file."""
    said = message.text or " ".join(filter(None, _texts(message)))
    shown = [f"{file['kind']}: {file['name']}" for file in files.of(message.detail)]
    return (said or next(iter(shown), ""))[:PREVIEW]


def _texts(message: FakeMessage) -> list[str]:
    """The text of the message, those of its components, and its poll, place or contact in words."""
    special = contents.words(message.detail)
    return [*([message.text] if message.text or not special else []), *_of_components(message), *special]


def _of_components(message: FakeMessage) -> list[str]:
    return component_tree.texts(message.detail.get("components", []))


def _topics(chat: FakeChat) -> list[dict[str, Any]]:
    """The topics of a chat on Telegram, in the order of their creation."""
    names, closed = chat.facts.get("topic_names", {}), chat.facts.get("closed_topics", ())
    return [
        {"id": topic, "name": names.get(str(topic), f"Topic {topic}"), "is_closed": topic in closed}
        for topic in chat.facts.get("topics", ())
    ]


def _general(chat: FakeChat) -> dict[str, Any]:
    """The General topic, whose messages have no number."""
    return {
        "name": chat.facts.get("topic_names", {}).get(str(standing.GENERAL), "General"),
        "is_closed": standing.GENERAL in chat.facts.get("closed_topics", ()),
        "is_hidden": bool(chat.facts.get("general_hidden")),
    }


def _keyboard(components: Sequence[Mapping[str, Any]]) -> list[list[dict[str, Any]]] | None:
    """Discord's components in the form of a Telegram keyboard: rows of ``text`` with ``callback_data`` or ``url``.

    A select is a row of its own: ``select`` names what to choose from.
    """
    rows: list[list[dict[str, Any]]] = []
    for component in component_tree.walk(components):
        if component.get("type") == 1:
            rows.append([_key(each) for each in component.get("components") or ()])
        elif isinstance(component.get("accessory"), Mapping) and component["accessory"].get("type") == BUTTON:
            rows.append([_key(component["accessory"])])
    return rows or None


def _key(component: Mapping[str, Any]) -> dict[str, Any]:
    data = None if component.get("disabled") else component.get("custom_id")
    if component.get("type") in component_tree.SELECTS:
        known = ("placeholder", "options", "min_values", "max_values")
        more = {name: component[name] for name in known if name in component}
        return {
            "text": "",
            "callback_data": None,
            "data": data,
            "select": component_tree.SELECTS[component["type"]],
            **more,
        }
    key = {"text": component.get("label") or "", "callback_data": data, "url": component.get("url")}
    return {**key, "style": component["style"]} if "style" in component else key
