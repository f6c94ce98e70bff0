"""The User, Chat and Message objects of the Bot API, written from rows.

Source: https://core.telegram.org/bots/api#available-types
"""

from typing import Any

from emulator.platforms import files
from emulator.platforms.store import FakeChat, FakeMessage, FakePerson, PlatformStore
from emulator.platforms.telegram import contents, standing
from emulator.platforms.telegram.bot import TelegramBot
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

    def member(self, chat: FakeChat, person: FakePerson | None) -> dict[str, Any]:
        """The ChatMember object of a person; None: of the bot."""
        key, user = (standing.BOT, self.me) if person is None else (person.id, self.person(person))
        return {**standing.of(chat, key), "user": user}

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
        if (origin := message.detail.get("origin")) is not None:
            wired["forward_origin"] = self._origin(origin)
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

    def _origin(self, kept: dict[str, Any]) -> dict[str, Any]:
        """The MessageOrigin object; nobody here hides the account in forwards."""
        person = self._store.person("telegram", kept["author"] or "")
        return {"type": "user", "date": kept["date"], "sender_user": self.person(person) if person else self.me}

    def _content(self, message: FakeMessage) -> dict[str, Any]:
        """The text with its entities, the poll, the place ..., or the files with their caption."""
        if "poll" in message.detail:
            return {"poll": contents.wired_poll(message.detail["poll"])}
        if "content" in message.detail:
            return dict(message.detail["content"])
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
