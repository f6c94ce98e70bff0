"""The User, Chat and Message objects of the Bot API, written from rows.

Source: https://core.telegram.org/bots/api#available-types
"""

from collections.abc import Mapping
from typing import Any

from emulator.platforms import files
from emulator.platforms.initial_people import TelegramBot
from emulator.platforms.store import FakeChat, FakeMessage, FakePerson, PlatformStore
from emulator.platforms.telegram.files import TelegramFiles


class TelegramObjects:
    """Writes objects from rows."""

    def __init__(self, store: PlatformStore, bot: TelegramBot, kept: TelegramFiles) -> None:
        self._store, self._bot, self._files = store, bot, kept

    @property
    def me(self) -> dict[str, Any]:
        """The bot as a User object."""
        return {"id": self._bot.id, "is_bot": True, "first_name": self._bot.name, "username": self._bot.username}

    def person(self, person: FakePerson) -> dict[str, Any]:
        return {
            "id": int(person.id),
            "is_bot": False,
            "first_name": person.name,
            "username": person.username,
            "language_code": "en",
        }

    def chat(self, chat: FakeChat) -> dict[str, Any]:
        if chat.kind == "private":
            person = self._store.person("telegram", chat.id)
            name = {"first_name": person.name, "username": person.username} if person else {}
            return {"id": int(chat.id), **name, "type": "private"}
        wired = {"id": int(chat.id), "title": chat.title, "type": chat.kind}
        return {**wired, "is_forum": True} if chat.facts.get("topics") else wired

    def message(self, chat: FakeChat, message: FakeMessage, *, with_reply: bool = True) -> dict[str, Any]:
        """The Message object; it nests the message that it replies to, one level deep."""
        person = None if message.is_bot else self._store.person("telegram", message.author)
        wired: dict[str, Any] = {
            "message_id": int(message.id),
            "from": self.person(person) if person else self.me,
            "chat": self.chat(chat),
            "date": message.created_ms // 1000,
        }
        if "thread" in message.detail:
            wired.update(message_thread_id=message.detail["thread"], is_topic_message=True)
        if with_reply and (reply_to := message.detail.get("reply_to")) is not None:
            replied = self._store.message(chat, reply_to)
            if replied is not None:
                wired["reply_to_message"] = self.message(chat, replied, with_reply=False)
        if message.edited_ms is not None:
            wired["edit_date"] = message.edited_ms // 1000
        wired.update(self._content(message))
        if message.detail.get("keyboard"):
            wired["reply_markup"] = {"inline_keyboard": message.detail["keyboard"]}
        return wired

    def _content(self, message: FakeMessage) -> dict[str, Any]:
        """The text with its entities, the poll, or the files with their caption."""
        if "poll" in message.detail:
            return {"poll": _poll(message.detail["poll"])}
        entities = message.detail.get("entities")
        shown = files.of(message.detail)
        if not shown:
            return {"text": message.text, **({"entities": entities} if entities else {})}
        wired: dict[str, Any] = self._files.wired(shown[0])
        if "media_group_id" in message.detail:
            wired["media_group_id"] = message.detail["media_group_id"]
        if message.text:
            wired["caption"] = message.text
        return {**wired, **({"caption_entities": entities} if entities else {})}


def _poll(kept: Mapping[str, Any]) -> dict[str, Any]:
    """The Poll object; nobody has voted."""
    options = [
        {"persistent_id": str(number), "text": each, "voter_count": 0} for number, each in enumerate(kept["options"])
    ]
    return {
        "id": kept["id"],
        "question": kept["question"],
        "options": options,
        "total_voter_count": 0,
        "is_closed": False,
        "is_anonymous": kept["anonymous"],
        "type": "regular",
        "allows_multiple_answers": kept["multiple"],
        "allows_revoting": True,
        "members_only": False,
        **({"open_period": kept["open_s"]} if kept["open_s"] else {}),
    }
