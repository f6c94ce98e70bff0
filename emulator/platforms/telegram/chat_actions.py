"""What people do in a chat of the fake Telegram besides writing: send albums, open topics, vote ..."""

import secrets
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from emulator.platforms.bus import EventBus
from emulator.platforms.config import Clock
from emulator.platforms.errors import ActionRefused
from emulator.platforms.store import PlatformStore
from emulator.platforms.telegram import contents, standing
from emulator.platforms.telegram.objects import TelegramObjects
from emulator.platforms.telegram.people import TelegramPeople
from emulator.platforms.telegram.updates import UpdateDelivery

MOST_IN_AN_ALBUM = 10
MAX_TOPIC_NAME = 128
_ALBUMS = {"photo": "media", "video": "media", "document": "documents", "audio": "audio"}


class TelegramChatActions:
    """Plays the people, with the actions of :class:`.people.TelegramPeople`."""

    def __init__(
        self,
        clock: Clock,
        store: PlatformStore,
        bus: EventBus,
        people: TelegramPeople,
        objects: TelegramObjects,
        updates: UpdateDelivery,
    ) -> None:
        self._clock, self._store, self._bus, self._people = clock, store, bus, people
        self._objects, self._updates = objects, updates

    def send_files(
        self, person_id: str, text: str, files: Sequence[Mapping[str, Any]], **where: Any
    ) -> list[dict[str, Any]]:
        """*person_id* sends files with *text* as the caption of the first, as Telegram's apps do.

        Photos and videos that follow each other become one album, and so do documents, and audio files. *where* is the
        chat, the topic and the reply, as for :meth:`.people.TelegramPeople.say`.

        Returns one object for each message, as ``say`` does.
        """
        done: list[dict[str, Any]] = []
        for _, members in groupby(enumerate(files), key=lambda pair: _album(pair[0], pair[1])):
            same = [file for _, file in members]
            for start in range(0, len(same), MOST_IN_AN_ALBUM):
                album = same[start : start + MOST_IN_AN_ALBUM]
                group = str(secrets.randbits(53)) if len(album) > 1 else None
                for file in album:
                    caption = "" if done else text
                    done.append(self._people.say(person_id, caption, files=[file], media_group_id=group, **where))
        return done

    def create_topic(self, chat_id: str, name: str) -> dict[str, Any]:
        """An administrator opens a topic called *name*; a supergroup without topics gets its first one."""
        chat = self._store.chat("telegram", chat_id)
        if chat is None or chat.kind not in ("supergroup", "private"):
            raise ActionRefused("only a supergroup, or a private chat, has topics: create a supergroup first")
        name = name.strip()
        if not 1 <= len(name) <= MAX_TOPIC_NAME:
            raise ActionRefused(f"the name of a topic has 1 to {MAX_TOPIC_NAME} characters")
        thread = self._store.next_message_id(chat)
        if thread == 1:  # the General topic's
            thread = self._store.next_message_id(chat)
        names = {**chat.facts.get("topic_names", {}), str(thread): name}
        self._store.set_facts(chat, topics=[*chat.facts.get("topics", ()), thread], topic_names=names)
        self._bus.publish("chat", {"platform": "telegram", "chat": chat.id})
        created = {"name": name, "icon_color": 7322096}
        update_id = self._people.push_service_message(
            chat.id, message_id=thread, message_thread_id=thread, is_topic_message=True, forum_topic_created=created
        )
        return {"chat": chat.id, "thread": thread, "update_id": update_id}

    def vote(self, chat_id: str, message_id: str, person_id: str, options: Sequence[int]) -> dict[str, Any]:
        """*person_id* chooses options of a poll by number; none takes the vote back.

        The bot gets the poll's new state, and of a poll that is not anonymous also who chose what.
        """
        chat, message = self._people.find(chat_id, message_id)
        person, poll = self._store.person("telegram", person_id), message.detail.get("poll")
        if person is None or person_id not in chat.members:
            raise ActionRefused(f"this person is not in {chat.title}")
        if poll is None:
            raise ActionRefused(f"message {message_id} is no poll")
        is_over = 0 < poll.get("closes_ms", 0) <= self._clock.now_ms()
        if poll.get("closed") or is_over:
            raise ActionRefused("the poll is closed")
        chosen, votes = sorted(set(options)), dict(poll.get("votes", {}))
        if not all(0 <= each < len(poll["options"]) for each in chosen):
            raise ActionRefused(f"the poll has the options 0 to {len(poll['options']) - 1}")
        if len(chosen) > 1 and not poll["multiple"]:
            raise ActionRefused("this poll takes one option")
        if poll.get("correct") and person_id in votes:
            raise ActionRefused("in a quiz nobody votes twice")
        votes.pop(person_id, None)
        poll = {**poll, "votes": {**votes, **({person_id: chosen} if chosen else {})}}
        self._store.change(message, detail={**message.detail, "poll": poll}, edited_ms=None)
        self._bus.publish("message", {"platform": "telegram", "chat": chat.id, "id": message.id})
        update_ids = [self._updates.push("poll", contents.wired_poll(poll), chat=chat.id, person=None)]
        if not poll["anonymous"]:
            names = {"option_ids": chosen, "option_persistent_ids": [str(each) for each in chosen]}
            answer = {"poll_id": poll["id"], "user": self._objects.person(person), **names}
            update_ids.append(self._updates.push("poll_answer", answer, chat=chat.id, person=person_id))
        return {"chat": chat.id, "message_id": message.id, "update_ids": update_ids}

    def make_admin(self, chat_id: str, *, is_admin: bool) -> dict[str, Any]:
        """The owner of a group makes the bot an administrator with all rights, or a member again."""
        chat = self._store.chat("telegram", chat_id)
        if chat is None or chat.kind == "private" or chat.facts.get("blocked"):
            raise ActionRefused("a bot can be an administrator of a group that it is in")
        was = self._objects.member(chat, None)
        rights = standing.booleans("ChatAdministratorRights", {}, default=True) | {"is_anonymous": False}
        kept = standing.administrator(rights, can_be_edited=False) if is_admin else None
        self._store.set_facts(chat, standing={standing.BOT: kept})
        now = self._objects.member(self._store.chat("telegram", chat.id) or chat, None)
        self._bus.publish("chat", {"platform": "telegram", "chat": chat.id})
        return {"chat": chat.id, "admin": is_admin, "update_id": self._people.push_standing(chat, was, now)}

    def stop_draft(self, chat_id: str, draft_id: int, thread: int | None) -> dict[str, Any]:
        """The person presses the stop button of a draft. The bot gets stopped_message_generation."""
        return {"chat": chat_id, "update_id": self._people.push_stop(chat_id, draft_id, thread)}


def _album(index: int, file: Mapping[str, Any]) -> str:
    """The kind of album that *file* belongs to; a file that stands alone is its own."""
    return _ALBUMS.get(str(file["kind"]), f"alone {index}")
