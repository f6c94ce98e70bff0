"""Where a bot's call goes: the chat, the topic and the message that its parameters name, or Telegram's refusal.

Source: https://core.telegram.org/bots/api#sendmessage, #replyparameters
"""

from emulator.platforms.store import FakeChat, FakeMessage, PlatformStore
from emulator.platforms.telegram import standing
from emulator.platforms.telegram.calls import Params, TelegramError, integer, is_true, parse_nested
from emulator.platforms.telegram.flood import FloodControl


class TelegramPlaces:
    """Finds chats, topics and messages. Every method raises TelegramError where Telegram refuses."""

    def __init__(self, store: PlatformStore, flood: FloodControl) -> None:
        self._store, self.flood = store, flood

    def known(self, params: Params) -> FakeChat:
        if params.get("chat_id") in (None, ""):
            raise TelegramError(400, "Bad Request: chat_id is empty")
        chat = self._store.chat("telegram", str(params["chat_id"]))
        if chat is None or not chat.facts.get("started"):
            raise TelegramError(400, "Bad Request: chat not found")
        return chat

    def writable(self, params: Params) -> FakeChat:
        chat = self.known(params)
        if "migrated_to" in chat.facts:
            new = int(chat.facts["migrated_to"])
            raise TelegramError(
                400, "Bad Request: group chat was upgraded to a supergroup chat", migrate_to_chat_id=new
            )
        if chat.facts.get("blocked"):
            gone = "is not a member of" if chat.facts.get("left") else "was kicked from"
            why = "bot was blocked by the user" if chat.kind == "private" else f"bot {gone} the {chat.kind} chat"
            raise TelegramError(403, f"Forbidden: {why}")
        return chat

    def need(self, chat: FakeChat, right: str, words: str) -> None:
        """Refuse a bot that lacks *right* in a group: "not enough rights to" *words*."""
        if right and not standing.has_right(chat, right):
            raise TelegramError(400, f"Bad Request: not enough rights to {words}")

    def thread(self, chat: FakeChat, params: Params) -> int | None:
        """The topic, which must belong to the chat. The General topic has no id: Telegram does not find 1."""
        if params.get("message_thread_id") in (None, "", 0, "0"):
            return None
        thread = integer(params["message_thread_id"], -1)
        if thread == 1 or thread not in chat.facts.get("topics", ()):
            raise TelegramError(400, "Bad Request: message thread not found")
        if thread in chat.facts.get("closed_topics", ()) and not standing.has_right(chat, "can_manage_topics"):
            raise TelegramError(400, "Bad Request: TOPIC_CLOSED")
        return thread

    def reply_to(self, chat: FakeChat, params: Params) -> str | None:
        given = parse_nested(params["reply_parameters"]) if params.get("reply_parameters") is not None else {}
        if not isinstance(given, dict):
            raise TelegramError(400, "Bad Request: can't parse reply parameters JSON object")
        wanted = given.get("message_id", params.get("reply_to_message_id"))
        if wanted in (None, "", 0):
            return None
        if self._store.message(chat, str(wanted)) is not None:
            return str(wanted)
        if is_true(given.get("allow_sending_without_reply")):
            return None
        raise TelegramError(400, "Bad Request: message to be replied not found")

    def message(self, chat: FakeChat, params: Params, verb: str) -> FakeMessage:
        message = self._store.message(chat, str(integer(params.get("message_id"), 0)))
        if message is None:
            raise TelegramError(400, f"Bad Request: message to {verb} not found")
        return message

    def own_message(self, chat: FakeChat, params: Params, verb: str = "edit") -> FakeMessage:
        """The bot's message that a call changes."""
        message = self.message(chat, params, verb)
        if not message.is_bot:
            raise TelegramError(400, "Bad Request: message can't be edited")
        return message
