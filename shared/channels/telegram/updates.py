"""Parses updates: each becomes one event. An update that we do not use becomes ``ignore``, with a reason.

``objects`` holds the objects of an update; ``attachments`` parses what a message carries beside its text.

Source: https://core.telegram.org/bots/api (10.3): #update, #message, #callbackquery, #chatmemberupdated.
"""

import re
from typing import Any

import msgspec

from shared.channels import sanitize
from shared.channels.base import Event, ForwardedFrom, Kind
from shared.channels.telegram import rich_messages
from shared.channels.telegram.attachments import attachments, shown, words
from shared.channels.telegram.objects import (
    CallbackQuery,
    ChatMemberUpdated,
    ManagedBotCreated,
    ManagedBotUpdated,
    MessageEntity,
    MessageReactionUpdated,
    StoppedMessageGeneration,
    TelegramChat,
    TelegramMessage,
    TelegramUser,
    entities_of,
    message_of,
)
from shared.core.content import QuotedMessage
from shared.core.errors import PayloadInvalid
from shared.core.text import half_characters

_MESSAGES: dict[str, Kind] = {
    "message": "message",
    "channel_post": "message",
    "edited_message": "edit",
    "edited_channel_post": "edit",
}
_SEPARATOR = re.compile(r"[\s,:]+")  # between the bot's name and what follows it
_IGNORED_UPDATES = (
    "business_connection", "business_message", "edited_business_message", "deleted_business_messages", "guest_message",
    "message_reaction_count", "inline_query", "chosen_inline_result", "shipping_query", "pre_checkout_query",
    "purchased_paid_media", "poll", "poll_answer", "chat_member", "chat_join_request", "chat_boost",
    "removed_chat_boost", "subscription",
)  # fmt: skip
_SERVICE = (
    "new_chat_members", "left_chat_member", "chat_owner_left", "chat_owner_changed", "new_chat_title",
    "new_chat_photo", "delete_chat_photo", "group_chat_created", "supergroup_chat_created", "channel_chat_created",
    "message_auto_delete_timer_changed", "pinned_message", "successful_payment", "refunded_payment", "users_shared",
    "chat_shared", "gift", "unique_gift", "gift_upgrade_sent", "connected_website", "write_access_allowed",
    "passport_data", "proximity_alert_triggered", "boost_added", "chat_background_set", "checklist_tasks_done",
    "checklist_tasks_added", "direct_message_price_changed", "forum_topic_created", "forum_topic_edited",
    "forum_topic_closed", "forum_topic_reopened", "general_forum_topic_hidden", "general_forum_topic_unhidden",
    "giveaway_created", "giveaway_completed", "paid_message_price_changed", "poll_option_added", "poll_option_deleted",
    "community_chat_added", "community_chat_joined", "community_chat_removed",
    "suggested_post_approved", "suggested_post_approval_failed", "suggested_post_declined",
    "suggested_post_paid", "suggested_post_refunded", "video_chat_scheduled", "video_chat_started",
    "video_chat_ended", "video_chat_participants_invited", "web_app_data",
)  # fmt: skip


_ANY_SERVICE = frozenset(_SERVICE)


class UpdateParser:
    """Parses the updates of one bot, given by its id and its @name."""

    def __init__(self, bot_id: int, username: str) -> None:
        self._bot_id = bot_id
        self._mention = "@" + username.removeprefix("@").lower()

    def parse(self, body: bytes) -> Event:
        """The event of one update; ``ignore`` where we do not use the update.

        Raises:
            PayloadInvalid: the body is JSON, but no update.
            ValueError, RecursionError: the body is not valid JSON.
        """
        return self._event(*_envelope(body))

    def _event(self, update_id: int, update: dict[str, Any]) -> Event:
        key = f"{self._bot_id}:{update_id}"
        try:
            return self._parse(key, update)
        except msgspec.ValidationError:
            return Event("ignore", key, reason="malformed")

    def _parse(self, key: str, update: dict[str, Any]) -> Event:
        for name, kind in _MESSAGES.items():
            if name in update:
                return self._message(key, kind, update[name])
        for name, parse in _PARSERS.items():
            if name in update:
                return parse(key, update[name])
        reason = next((name for name in _IGNORED_UPDATES if name in update), "unknown_update_type")
        return Event("ignore", key, reason=reason)

    def _message(self, key: str, kind: Kind, raw: Any) -> Event:
        message = message_of(raw)
        is_edit = kind == "edit"
        # Facts and not an event: a copy of an event, with its many fields, costs as much as the rest of the parsing.
        facts = {
            **_in_chat(message.chat, message.author),
            "sender": message.author_name,
            "thread_id": message.thread_id,
            "sent_at_ms": _ms(message.edit_date if is_edit else message.date),
            "first_sent_at_ms": _ms(message.date) if is_edit else None,
        }
        old, new = message.migrate_from_chat_id, message.migrate_to_chat_id
        if old is not None or new is not None:
            ids = {"old_platform_id": str(old or message.chat.id), "new_platform_id": str(new or message.chat.id)}
            return Event("migrate", key, **facts, context=ids)
        if "managed_bot_created" in raw and message.sender is not None:
            made = msgspec.convert(raw["managed_bot_created"], ManagedBotCreated)
            return Event("account", key, **facts, context=_account(message.sender, made.bot))
        reason = self._reason_to_ignore(message, raw)
        if reason:
            return Event("ignore", key, **facts, reason=reason)
        text = message.text or message.caption
        mention = self._leading_mention(message, text)
        command, args = self._command(message, text, mention)
        reply_to = self._reply_to(message, raw)
        is_called = command is not None or _is_answer_to_bot(reply_to) or self._mentions_bot(message, text, raw)
        facts["is_mention"] = facts["is_mention"] or is_called
        return Event(
            kind,
            key,
            **facts,
            platform_message_id=str(message.message_id),
            text=sanitize.text(text or words(raw)),
            attachments=tuple(attachments(raw)),
            mention=sanitize.text(mention),
            reply_to=reply_to,
            forwarded=self._forwarded(message),
            edited=is_edit,
            command=command,
            command_args=args,
            context=_context(message),
            group_key=message.media_group_id,
        )

    def _reason_to_ignore(self, message: TelegramMessage, raw: dict[str, Any]) -> str | None:
        if not _ANY_SERVICE.isdisjoint(raw):  # an empty object counts too
            return f"service:{next(name for name in _SERVICE if name in raw)}"
        if message.via_bot and message.via_bot.id == self._bot_id:
            return "via_self"
        is_bot = message.sender is not None and message.sender.is_bot and message.sender_chat is None
        return "from_bot" if is_bot else None

    def _leading_mention(self, message: TelegramMessage, text: str) -> str:
        """The bot's name at the start of the text, with what separates it from the next word; else empty."""
        for entity in entities_of(message):
            if entity.offset == 0 and self._names_bot(entity, text):
                behind = _SEPARATOR.match(text, len(_units(text, 0, entity.length)))
                return text[: behind.end()] if behind else ""
        return ""

    def _command(self, message: TelegramMessage, text: str, mention: str) -> tuple[str | None, str | None]:
        """The command to this bot at the start of the text, or behind its name, and the arguments; or (None, None)."""
        start = len(mention.encode("utf-16-le", "surrogatepass")) // 2
        for entity in entities_of(message):
            if entity.type == "bot_command" and entity.offset == start:
                name, _, bot = _units(text, start, entity.length).partition("@")
                if not bot or "@" + bot.lower() == self._mention:
                    rest = _units(text, start + entity.length, len(text) * 2)
                    return sanitize.name(name.removeprefix("/")), sanitize.text(rest).strip()
        return None, None

    def _mentions_bot(self, message: TelegramMessage, text: str, raw: dict[str, Any]) -> bool:
        """Whether the text mentions the bot, with or without @username. A name inside code is no mention."""
        if any(self._names_bot(entity, text) for entity in entities_of(message)):
            return True
        return any(map(self._is_ours, rich_messages.mentions(raw.get("rich_message"))))

    def _names_bot(self, entity: MessageEntity, text: str) -> bool:
        if entity.type == "mention":
            return _units(text, entity.offset, entity.length).lower() == self._mention
        return entity.type == "text_mention" and entity.user is not None and entity.user.id == self._bot_id

    def _is_ours(self, mention: dict[str, Any]) -> bool:
        match mention:
            case {"type": "mention", "username": str(name)}:
                return "@" + name.removeprefix("@").lower() == self._mention
            case {"type": "text_mention", "user": {"id": int(number)}}:
                return number == self._bot_id
        return False

    def _reply_to(self, message: TelegramMessage, raw: dict[str, Any]) -> QuotedMessage | None:
        """The message that this one replies to: the part that the sender selected, its text, or what it shows."""
        quoted = self._reply_elsewhere(message) or self._reply_here(message)
        if quoted is not None and message.quote is not None:
            quoted["text"] = sanitize.text(message.quote.text)
        elif quoted is not None and not quoted["text"]:
            quoted["text"] = shown(raw.get("external_reply" if quoted.get("external") else "reply_to_message"))
        return quoted

    def _reply_elsewhere(self, message: TelegramMessage) -> QuotedMessage | None:
        """The message of another chat that this one replies to."""
        if message.external_reply is None:
            return None
        origin, number = message.external_reply.origin, message.external_reply.message_id
        quoted: QuotedMessage = {"text": "", "sender_id": origin.author_id, "external": True}
        quoted["is_self"] = origin.author_id == str(self._bot_id)
        return quoted if number is None else {"message_id": str(number), **quoted}

    def _reply_here(self, message: TelegramMessage) -> QuotedMessage | None:
        """The message of this chat that this one replies to. A link to the first message of a topic is no reply."""
        original = message.reply_to_message
        if original is None or original.forum_topic_created is not None:
            return None
        is_self = original.sender is not None and original.sender.id == self._bot_id and original.sender_chat is None
        text = sanitize.text(original.text or original.caption)
        author = str(original.author.id)
        quoted: QuotedMessage = {"message_id": str(original.message_id), "text": text, "sender_id": author}
        quoted["is_self"] = is_self
        if original.forward_origin is not None and original.forward_origin.author_id != str(self._bot_id):
            quoted["origin_id"] = original.forward_origin.author_id
        return quoted

    def _forwarded(self, message: TelegramMessage) -> ForwardedFrom | None:
        if message.forward_origin is None:
            return None
        author = message.forward_origin.author_id
        return {"sender_id": author, "is_self": author == str(self._bot_id)}


def _is_answer_to_bot(reply_to: QuotedMessage | None) -> bool:
    return reply_to is not None and reply_to["is_self"] and not reply_to.get("external")


def _envelope(body: bytes) -> tuple[int, dict[str, Any]]:
    update = msgspec.json.decode(half_characters.mend_json(body))
    update_id = update.get("update_id") if isinstance(update, dict) else None
    if not isinstance(update_id, int) or isinstance(update_id, bool):
        raise PayloadInvalid("the body has no update_id, so it is no update")
    return update_id, update


def _in_chat(chat: TelegramChat, author: TelegramUser | TelegramChat) -> dict[str, Any]:
    """What an event tells of its chat and its author."""
    return {
        "platform_id": str(chat.id),
        "sender": author.name,
        "sender_id": str(author.id),
        "is_mention": chat.type == "private" or chat.is_direct_messages,
        "is_group": chat.type != "private",
        "chat_name": sanitize.name(chat.title) if chat.title else "",
    }


def _callback(key: str, raw: Any) -> Event:
    callback = msgspec.convert(raw, CallbackQuery)
    message = callback.message
    if message is None:  # a button under an inline message: no chat to answer in
        context = {"callback_id": callback.id}
        sender = str(callback.sender.id)
        return Event("ignore", key, sender_id=sender, context=context, reason="callback_without_chat")
    return Event(
        "callback",
        key,
        **{**_in_chat(message.chat, callback.sender), "is_mention": True},
        thread_id=message.thread_id,
        platform_message_id=str(message.message_id),
        text=sanitize.text(callback.data),
        context={"callback_id": callback.id, "message_id": str(message.message_id)},
    )


def _reaction(key: str, raw: Any) -> Event:
    reaction = msgspec.convert(raw, MessageReactionUpdated)
    old, new = (list(map(_emoji, side)) for side in (reaction.old_reaction, reaction.new_reaction))
    changes = {
        "added": [emoji for emoji in new if emoji not in old],
        "removed": [emoji for emoji in old if emoji not in new],
    }
    author = reaction.user or reaction.actor_chat or reaction.chat
    facts = {**_in_chat(reaction.chat, author), "sent_at_ms": _ms(reaction.date)}
    return Event("reaction", key, **facts, platform_message_id=str(reaction.message_id), context=changes)


def _emoji(reaction: dict[str, Any]) -> str:
    match reaction:
        case {"type": "emoji", "emoji": str(emoji)}:
            return emoji
        case {"type": "custom_emoji", "custom_emoji_id": str(number)}:
            return f"custom:{number}"
    return str(reaction.get("type"))


def _membership(key: str, raw: Any) -> Event:
    membership = msgspec.convert(raw, ChatMemberUpdated)
    change = {"status": membership.new_chat_member.status, "old_status": membership.old_chat_member.status}
    facts = {**_in_chat(membership.chat, membership.sender), "sent_at_ms": _ms(membership.date)}
    return Event("membership", key, **facts, context=change)


def _stopped(key: str, raw: Any) -> Event:
    stopped = msgspec.convert(raw, StoppedMessageGeneration)
    thread = None if stopped.message_thread_id is None else str(stopped.message_thread_id)
    facts = {**_in_chat(stopped.chat, stopped.chat), "thread_id": thread}
    return Event("stop", key, **facts, context={"draft_id": str(stopped.draft_id)})


def _managed_bot(key: str, raw: Any) -> Event:
    """News about a bot that a person gave to this one; the person's private chat has the person's id."""
    managed = msgspec.convert(raw, ManagedBotUpdated)
    owner = str(managed.user.id)
    context = _account(managed.user, managed.bot)
    return Event("account", key, platform_id=owner, sender=managed.user.name, sender_id=owner, context=context)


def _account(owner: TelegramUser, bot: TelegramUser) -> dict[str, Any]:
    return {"owner_id": str(owner.id), "bot_id": str(bot.id), "username": sanitize.name(bot.username)}


_PARSERS = {
    "managed_bot": _managed_bot,
    "callback_query": _callback,
    "message_reaction": _reaction,
    "my_chat_member": _membership,
    "stopped_message_generation": _stopped,
}


def _units(text: str, offset: int, length: int) -> str:
    """The part of *text* at *offset*, both counted in UTF-16 code units as in entities."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units[2 * max(offset, 0) : 2 * max(offset + length, 0)].decode("utf-16-le", "replace")


def _context(message: TelegramMessage) -> dict[str, Any]:
    if message.forward_origin is None and message.ephemeral_message_id is None:
        return {}
    facts = {
        "forwarded_from": message.forward_origin.name if message.forward_origin else None,
        "ephemeral_message_id": _text(message.ephemeral_message_id),
        "receiver_user_id": str((message.sender or message.author).id) if message.ephemeral_message_id else None,
    }
    return {name: fact for name, fact in facts.items() if fact is not None}


def _ms(seconds: int | None) -> int | None:
    return None if seconds is None else seconds * 1000


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)
