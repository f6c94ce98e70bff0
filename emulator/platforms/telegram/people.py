"""People's actions on the fake Telegram: write, edit, press a button, react, create groups, block the bot.

Each action becomes an update. An action under an unknown number creates that person.
"""

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from emulator.platforms import reactions
from emulator.platforms.bus import EventBus
from emulator.platforms.config import PlatformsConfig
from emulator.platforms.errors import ActionRefused
from emulator.platforms.store import FakeChat, FakeMessage, FakePerson, PlatformStore
from emulator.platforms.telegram import standing
from emulator.platforms.telegram.markup import find, utf16_length
from emulator.platforms.telegram.methods.managed import TAP
from emulator.platforms.telegram.objects import TelegramObjects
from emulator.platforms.telegram.queue import KINDS
from emulator.platforms.telegram.texts import MAX_TEXT
from emulator.platforms.telegram.updates import UpdateDelivery

MAX_CAPTION = 1024


class TelegramPeople:
    """Plays the people. Every method returns the ids of its update; the delivery follows."""

    def __init__(
        self,
        config: PlatformsConfig,
        store: PlatformStore,
        bus: EventBus,
        objects: TelegramObjects,
        updates: UpdateDelivery,
    ) -> None:
        self._config, self._store, self._bus = config, store, bus
        self._objects, self._updates = objects, updates
        self._clock = config.clock
        self.make_bot: Callable[[str, str, str], dict[str, Any]] = _no_bot

    def say(
        self,
        person_id: str,
        text: str,
        *,
        chat_id: str | None = None,
        thread: int | None = None,
        reply_to: str | None = None,
        files: Sequence[Mapping[str, Any]] = (),
        media_group_id: str | None = None,
    ) -> dict[str, Any]:
        """*person_id* writes *text*, in their private chat unless *chat_id* names another.

        Args:
            files: the message's file, as in ``detail["files"]``; *text* is then its caption, and may be empty.
            media_group_id: the number of the album that the message belongs to.

        Returns ``message_id``, ``chat`` and ``update_id``. ``update_id`` is None if privacy mode or ``allowed_updates``
        keeps the message from the bot.
        """
        _check(text, is_caption=bool(files))
        person = self._person(person_id)
        chat = self._chat(person, chat_id)
        if chat.facts.get("blocked"):
            raise ActionRefused(f"the bot is blocked in {chat.title}; unblock it first")
        _check_may_write(chat, person, thread)
        if thread is not None and thread not in chat.facts.get("topics", ()):
            self._store.set_facts(chat, topics=[*chat.facts.get("topics", ()), thread])
        if not chat.facts.get("started"):
            self._store.set_facts(chat, started=True)
        if reply_to is not None and self._store.message(chat, reply_to) is None:
            raise ActionRefused(f"there is no message {reply_to} to reply to")
        detail: dict[str, Any] = {"entities": find(text)}
        given = {"thread": thread, "reply_to": reply_to, "files": list(files), "media_group_id": media_group_id}
        detail |= {key: value for key, value in given.items() if value not in (None, [])}
        message = self._store.add_message(
            chat,
            str(self._store.next_message_id(chat)),
            author=person.id,
            is_bot=False,
            text=text,
            detail=detail,
            now_ms=self._clock.now_ms(),
        )
        return self._send(self._store.chat("telegram", chat.id) or chat, message, "message")

    def edit(self, chat_id: str, message_id: str, text: str, *, person_id: str | None = None) -> dict[str, Any]:
        """The author of a message, *person_id* if it is given, edits its text or caption."""
        chat, message = self.find(chat_id, message_id)
        _check(text, is_caption=bool(message.detail.get("files")))
        if message.is_bot:
            raise ActionRefused("people can't edit a message of the bot")
        if person_id not in (None, message.author):
            raise ActionRefused("only the author of a message can edit it")
        detail = {**message.detail, "entities": find(text)}
        message = self._store.change(message, text=text, detail=detail, edited_ms=self._clock.now_ms())
        return self._send(chat, message, "edited_message")

    def delete(self, chat_id: str, message_id: str, *, person_id: str) -> dict[str, Any]:
        """*person_id* deletes a message for everybody. Telegram tells no bot of it.

        In a private chat people can also delete the bot's messages, in a group only their own.
        """
        chat, message = self.find(chat_id, message_id)
        if person_id not in chat.members:
            raise ActionRefused(f"this person is not in {chat.title}")
        if chat.kind != "private" and message.author != person_id:
            raise ActionRefused("in a group, people can delete only their own messages")
        self._store.delete(message, now_ms=self._clock.now_ms())
        self._bus.publish("message", {"platform": "telegram", "chat": chat.id, "id": message.id})
        return {"chat": chat.id, "message_id": message.id, "update_id": None}

    def press(self, chat_id: str, message_id: str, person_id: str, data: str) -> dict[str, Any]:
        """*person_id* presses the button with *data*."""
        chat, message = self.find(chat_id, message_id)
        person = self._person(person_id)
        if person.id not in chat.members:
            raise ActionRefused(f"{person.name} is not in chat {chat_id}")
        buttons = [button for row in message.detail.get("keyboard", ()) for button in row]
        if data not in [button.get("callback_data") for button in buttons]:
            raise ActionRefused(f"message {message_id} has no button with this data")
        if data == TAP and (asked := message.detail.get("bot_request")) is not None:
            made = self.make_bot(person.id, asked["name"], asked["username"])
            return {"chat": chat.id, "message_id": message.id, **made}
        query = {
            "id": str(secrets.randbits(62)),
            "from": self._objects.person(person),
            "message": self._objects.message(chat, message),
            "chat_instance": str(abs(int(chat.id)) * 7919),
            "data": data,
        }
        update_id = self._updates.push("callback_query", query, chat=chat.id, person=person_id)
        return {"chat": chat.id, "message_id": message.id, "update_id": update_id, "callback_query_id": query["id"]}

    def react(
        self, chat_id: str, message_id: str, person_id: str, emoji: str, *, is_removed: bool = False
    ) -> dict[str, Any]:
        """*person_id* chooses *emoji* for a message, in place of the choice before; "" or *is_removed* takes it back.

        The bot gets an update only if it asked for message_reaction.
        """
        chat, message = self.find(chat_id, message_id)
        person = self._person(person_id)
        before, after = reactions.of_one(message.detail, person.id), [emoji] if emoji and not is_removed else []
        message = self._store.change(message, detail=reactions.chosen(message.detail, person.id, after), edited_ms=None)
        self._bus.publish("message", {"platform": "telegram", "chat": chat.id, "id": message.id})
        reaction = {
            "chat": self._objects.chat(chat),
            "message_id": int(message.id),
            "date": self._clock.now_ms() // 1000,
            "user": self._objects.person(person),
            "old_reaction": [{"type": "emoji", "emoji": each} for each in before],
            "new_reaction": [{"type": "emoji", "emoji": each} for each in after],
        }
        update_id = self._updates.push("message_reaction", reaction, chat=chat.id, person=person_id)
        return {"chat": chat.id, "message_id": message.id, "update_id": update_id}

    def block(self, chat_id: str, *, is_blocked: bool) -> dict[str, Any]:
        """The person blocks or unblocks the bot; in a group, an admin removes it or adds it again."""
        chat = self._known(chat_id)
        self._store.set_facts(chat, blocked=is_blocked, left=None, standing={standing.BOT: None})
        was, now = ("member", "kicked") if is_blocked else ("kicked", "member")
        update_id = self._push_membership(chat, was, now)
        self._bus.publish("chat", {"platform": "telegram", "chat": chat.id})
        return {"chat": chat.id, "blocked": is_blocked, "update_id": update_id}

    def create_chat(self, title: str, members: Sequence[str], *, is_super: bool) -> dict[str, Any]:
        """The first of *members* creates a group with the others and the bot. The bot gets an update."""
        if not members or not title.strip():
            raise ActionRefused("a group needs a title and at least one member")
        people = [self._person(member) for member in members]
        number = int(self._store.get_or_put("telegram.next_group", "4002000001"))
        self._store.put("telegram.next_group", str(number + 1))
        chat_id = f"-100{number % 10**10}" if is_super else f"-{number}"
        kind = "supergroup" if is_super else "group"
        chat = FakeChat("telegram", chat_id, kind, title, tuple(person.id for person in people), {"started": True})
        self._store.add_chat(chat)
        self._bus.publish("chat", {"platform": "telegram", "chat": chat.id})
        return {"chat": chat.id, "update_id": self._push_membership(chat, "left", "member")}

    def join(self, chat_id: str, person_id: str) -> dict[str, Any]:
        """*person_id* joins a group. The bot gets no update: it is no administrator."""
        chat, person = self._known(chat_id), self._person(person_id)
        if chat.kind == "private":
            raise ActionRefused("nobody can join a private chat")
        _check_not_banned(chat, person)
        self._store.join(chat, person.id)
        self._bus.publish("chat", {"platform": "telegram", "chat": chat.id})
        return {"chat": chat.id, "person": person.id}

    def migrate(self, chat_id: str) -> dict[str, Any]:
        """A group becomes a supergroup with a new id. The bot gets an update from both chats."""
        old = self._known(chat_id)
        if old.kind != "group" or "migrated_to" in old.facts:
            raise ActionRefused(f"chat {chat_id} can't become a supergroup: it is no group, or has migrated already")
        new = FakeChat(
            "telegram", f"-100{old.id.lstrip('-')[-10:]}", "supergroup", old.title, old.members, {"started": True}
        )
        self._store.add_chat(new)
        self._store.set_facts(old, migrated_to=new.id)
        updates = [
            self._push_service_message(old, migrate_to_chat_id=int(new.id)),
            self._push_service_message(new, migrate_from_chat_id=int(old.id)),
        ]
        self._bus.publish("chat", {"platform": "telegram", "chat": new.id})
        return {"chat": new.id, "update_ids": updates}

    def close_topic(self, chat_id: str, thread: int) -> dict[str, Any]:
        """Somebody closes a topic: the bot, which is no admin, can't write there any more."""
        chat = self._known(chat_id)
        if thread not in chat.facts.get("topics", ()):
            raise ActionRefused(f"there is no topic {thread} in chat {chat_id}")
        self._store.set_facts(chat, closed_topics=[*chat.facts.get("closed_topics", ()), thread])
        topic = {"message_thread_id": thread, "is_topic_message": True}
        return {"update_id": self._push_service_message(chat, **topic, forum_topic_closed={})}

    def _push_membership(self, chat: FakeChat, was: str, now: str) -> int | None:
        """Push the update about the bot's new status in *chat*."""
        me = self._objects.me
        return self.push_standing(chat, _membership(me, was), _membership(me, now))

    def push_standing(self, chat: FakeChat, was: Mapping[str, Any], now: Mapping[str, Any]) -> int | None:
        """Push that the owner of *chat* made the bot another ChatMember; the id of the update."""
        change = {
            "chat": self._objects.chat(chat),
            "from": self._objects.person(self._person(chat.members[0])),
            "date": self._clock.now_ms() // 1000,
            "old_chat_member": was,
            "new_chat_member": now,
        }
        return self._updates.push("my_chat_member", change, chat=chat.id, person=chat.members[0])

    def _push_service_message(self, chat: FakeChat, **facts: Any) -> int | None:
        """Push a service message of *chat*, which no transcript shows."""
        message = {
            "message_id": facts.pop("message_id", None) or self._store.next_message_id(chat),
            "from": self._objects.person(self._person(chat.members[0])),
            "chat": self._objects.chat(chat),
            "date": self._clock.now_ms() // 1000,
            **facts,
        }
        return self._updates.push("message", message, chat=chat.id, person=chat.members[0])

    def push_service_message(self, chat_id: str, **facts: Any) -> int | None:
        """Push a service message of a chat; the id of its update."""
        return self._push_service_message(self._known(chat_id), **facts)

    def push_stop(self, chat_id: str, draft_id: int, thread: int | None) -> int | None:
        """Push the update about a draft that was stopped; its id."""
        chat = self._known(chat_id)
        place = {"message_thread_id": thread} if thread is not None else {}
        stopped = {"chat": self._objects.chat(chat), **place, "draft_id": draft_id}
        return self._updates.push("stopped_message_generation", stopped, chat=chat.id, person=chat.members[0])

    def inject(self, update: Mapping[str, Any]) -> dict[str, Any]:
        """Deliver *update* unchanged, e.g. a recorded one; an update without ``update_id`` gets one.

        The bot can answer then: the chat of a person whom the update names counts as one where people wrote.
        """
        kind = next((name for name in KINDS if name in update), None)
        if kind is None:
            raise ActionRefused("an update needs one known kind, e.g. message")
        body = _object(update[kind])
        known = {
            "chat": str(_object(body.get("chat") or _object(body.get("message")).get("chat")).get("id", "")) or None,
            "person": str(_object(body.get("from")).get("id", "")) or None,
        }
        chat = self._store.chat("telegram", known["chat"] or "")
        if chat is None and known["chat"] and known["person"]:
            with suppress(ActionRefused):  # an update that no person can send has no chat to answer in
                chat = self._chat(self._person(known["person"]), known["chat"])
        if chat is not None:
            self._store.set_facts(chat, started=True)
        given = update.get("update_id")
        if given is None:
            return {"update_id": self._updates.push(kind, body, **known)}
        if not isinstance(given, int) or isinstance(given, bool):
            raise ActionRefused("update_id must be an integer")
        self._updates.push_whole(given, kind, update, **known)
        return {"update_id": given}

    def _send(self, chat: FakeChat, message: FakeMessage, kind: str) -> dict[str, Any]:
        self._bus.publish("message", {"platform": "telegram", "chat": chat.id, "id": message.id})
        update_id = None
        if self._is_for_the_bot(chat, message):
            wired = self._objects.message(chat, message)
            update_id = self._updates.push(kind, wired, chat=chat.id, person=message.author, message=message.id)
        return {"chat": chat.id, "message_id": message.id, "update_id": update_id}

    def _is_for_the_bot(self, chat: FakeChat, message: FakeMessage) -> bool:
        """Whether the bot gets the message. With privacy mode in a group, it gets only commands and replies to it."""
        if chat.kind == "private" or not self._config.group_privacy:
            return True
        replied = self._store.message(chat, message.detail["reply_to"]) if "reply_to" in message.detail else None
        if replied is not None and replied.is_bot:
            return True
        own = str(self._objects.me["username"])
        command = re.match(r"/[A-Za-z0-9_]+(?:@(\w+))?(?!\w)", message.text)
        return command is not None and (command[1] or own).lower() == own

    def add_newcomer(self, name: str) -> FakePerson:
        """A new person called *name*, who has not written to the bot yet."""
        number = int(self._store.get_or_put("telegram.next_person", "5000001001"))
        self._store.put("telegram.next_person", str(number + 1))
        return self._add(
            FakePerson(str(number), name, re.sub(r"\W+", "_", name.lower()).strip("_") or f"person_{number}")
        )

    def _add(self, person: FakePerson) -> FakePerson:
        self._store.add_person("telegram", person)
        self._store.add_chat(FakeChat("telegram", person.id, "private", person.name, (person.id,), {}))
        self._bus.publish("chat", {"platform": "telegram", "chat": person.id})
        return person

    def _person(self, person_id: str) -> FakePerson:
        """The person with this number; an unknown number creates a person with a private chat."""
        person = self._store.person("telegram", person_id)
        if person is not None:
            return person
        if not re.fullmatch(r"[1-9]\d{0,14}", person_id):
            raise ActionRefused("a person's id is a positive number")
        return self._add(FakePerson(person_id, f"Person {person_id}", f"person_{person_id}"))

    def _chat(self, person: FakePerson, chat_id: str | None) -> FakeChat:
        """The chat where the person writes; a message to an unknown group creates it."""
        chat_id = chat_id or person.id
        if not re.fullmatch(r"-?[1-9]\d{0,15}", chat_id):
            raise ActionRefused("a chat's id is a number, negative for groups")
        chat = self._store.chat("telegram", chat_id)
        if chat is None and chat_id.startswith("-"):
            kind = "supergroup" if chat_id.startswith("-100") else "group"
            chat = FakeChat("telegram", chat_id, kind, f"Group {chat_id}", (person.id,), {"started": True})
            self._store.add_chat(chat)
        if chat is None or (chat.kind == "private" and chat.id != person.id):
            raise ActionRefused(f"{person.name} can't write in chat {chat_id}")
        _check_not_banned(chat, person)
        self._store.join(chat, person.id)
        return chat

    def _known(self, chat_id: str) -> FakeChat:
        chat = self._store.chat("telegram", chat_id)
        if chat is None:
            raise ActionRefused(f"there is no chat {chat_id}")
        return chat

    def find(self, chat_id: str, message_id: str) -> tuple[FakeChat, FakeMessage]:
        chat = self._store.chat("telegram", chat_id)
        message = self._store.message(chat, message_id) if chat else None
        if chat is None or message is None:
            raise ActionRefused(f"there is no message {message_id} in chat {chat_id}")
        return chat, message


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _membership(user: Mapping[str, Any], status: str) -> dict[str, Any]:
    return {"user": user, "status": status, **({"until_date": 0} if status == "kicked" else {})}


def _check_not_banned(chat: FakeChat, person: FakePerson) -> None:
    if standing.of(chat, person.id)["status"] == "kicked":
        raise ActionRefused(f"{person.name} is banned from {chat.title}; the bot can take that back")


def _check_may_write(chat: FakeChat, person: FakePerson, thread: int | None) -> None:
    """What the bot restricted: a person, all people of the group, or a topic. Administrators may write all the same."""
    own = standing.of(chat, person.id)
    if own["status"] in ("creator", "administrator"):
        return
    if not {"can_send_messages": True, **chat.facts.get("permissions", {}), **own}["can_send_messages"]:
        raise ActionRefused(f"{person.name} may not write in {chat.title}: the bot restricted it")
    if (thread or standing.GENERAL) in chat.facts.get("closed_topics", ()):
        raise ActionRefused("this topic is closed; only administrators write in it")


def _check(text: str, *, is_caption: bool) -> None:
    if not text.strip() and not is_caption:
        raise ActionRefused("the text is empty")
    most, where = (MAX_CAPTION, "under a file") if is_caption else (MAX_TEXT, "in one message")
    if utf16_length(text) > most:
        raise ActionRefused(f"Telegram's apps send at most {most} characters {where}")


def _no_bot(person: str, name: str, username: str) -> dict[str, Any]:
    raise ActionRefused("no bot can be made here")
