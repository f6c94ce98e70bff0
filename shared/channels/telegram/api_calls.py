"""Pure decisions about calls to Telegram: what to call for a part, and how to simplify a refused call.

``answers`` says what an answer means; ``media`` has the files of a call.

Source: https://core.telegram.org/bots/api (10.3): #sendmessage, #editmessagetext, #editmessagemedia,
#inlinekeyboardmarkup.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from shared.channels import button_rows
from shared.channels.base import BotRequest, Button, Outgoing, OutgoingFile, Part
from shared.channels.telegram import media
from shared.core import content
from shared.core.errors import PermanentError

SHORT_ROW = 24  # characters of all labels in one row; a phone would cut longer ones
GENERAL_TOPIC = "1"  # has no id in the API: Telegram answers "message thread not found" to 1


class BotApiCall(msgspec.Struct, frozen=True):
    """One call of the Bot API.

    Attributes:
        files: to upload, by the names that the body refers to.
        edits: the id of the message that it changes, or None.
    """

    method: str
    body: Mapping[str, Any]
    files: Mapping[str, OutgoingFile] = msgspec.field(default_factory=dict)
    edits: str | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """The form of a call. Telegram's objections make it plainer.

    Attributes:
        is_plain: text without markup.
        is_reply: quotes the message that it answers.
        is_new: a new message, although the part edits one.
        is_caption: the edited message has files, so that its text is their caption.
        as_documents: files are shown as documents, whatever they are.
    """

    is_plain: bool = False
    is_reply: bool = True
    is_new: bool = False
    is_caption: bool = False
    as_documents: bool = False


def simpler(shape: Shape, step: str) -> Shape:
    """*shape* without what Telegram objects to; the same where nothing can be simplified."""
    match step:
        case "plain":
            return replace(shape, is_plain=True)
        case "no_reply":
            return replace(shape, is_reply=False)
        case "new_message":
            return replace(shape, is_new=True)
        case "caption":
            return replace(shape, is_caption=True)
        case "documents":
            return replace(shape, as_documents=True)
    return shape


def call_of(part: Part, to: Outgoing, shape: Shape) -> BotApiCall:
    """The call that sends *part*, or changes the message that it edits.

    Raises:
        FilesRefused, PartTooLong: Telegram has no call for these files there, or for one after the other.
    """
    if to.poll is not None or to.sticker is not None:
        return _special_call(to, shape)
    files = tuple(replace(file, kind="document") for file in part.files) if shape.as_documents else part.files
    words = _words(part, is_plain=shape.is_plain, name="caption" if files or shape.is_caption else "text")
    if to.edits and not shape.is_new:
        return _edit_call(files, words, to, is_caption=shape.is_caption)
    body = _place(to) | _reply(to, is_wanted=shape.is_reply)
    if not files:
        return BotApiCall("sendMessage", body | words | _NO_PREVIEW | _markup(to))
    upload = media.upload(
        files, words, is_private=content.receiver(to.context) is not None, has_buttons=bool(to.buttons)
    )
    return BotApiCall(upload.method, body | upload.fields | _markup(to), upload.files)


def _special_call(to: Outgoing, shape: Shape) -> BotApiCall:
    """A poll or a sticker. Source: #sendpoll (it can't be shown to one person of a group alone), #sendsticker."""
    body = _place(to) | _reply(to, is_wanted=shape.is_reply)
    if to.poll is None:
        return BotApiCall("sendSticker", body | {"sticker": str((to.sticker or {}).get("file_id", ""))})
    if content.receiver(to.context) is not None:
        raise PermanentError("Telegram can't show a poll to one person of a group alone; nothing was sent")
    asked: dict[str, Any] = {"question": to.poll.question, "options": [{"text": each} for each in to.poll.options]}
    asked |= {"allows_multiple_answers": to.poll.is_multiple, "open_period": to.poll.hours * 3600}
    return BotApiCall("sendPoll", body | asked)


def _edit_call(files: Sequence[OutgoingFile], words: dict[str, Any], to: Outgoing, *, is_caption: bool) -> BotApiCall:
    """Telegram removes buttons that the call does not name."""
    body = {"chat_id": number(to.platform_id), "message_id": number(to.edits or "")} | _markup(to)
    if files:
        upload = media.replacement(files, words)
        return BotApiCall(upload.method, body | upload.fields, upload.files, to.edits)
    if is_caption:
        return BotApiCall("editMessageCaption", body | words, edits=to.edits)
    return BotApiCall("editMessageText", body | words | _NO_PREVIEW, edits=to.edits)


_NO_PREVIEW: dict[str, Any] = {"link_preview_options": {"is_disabled": True}}


def _words(part: Part, *, is_plain: bool, name: str) -> dict[str, Any]:
    if not part.text:
        return {}
    return {name: part.text} if is_plain or part.html is None else {name: part.html, "parse_mode": "HTML"}


def _place(to: Outgoing) -> dict[str, Any]:
    """The chat, the topic, and the one person who sees the message where only one may."""
    body: dict[str, Any] = {"chat_id": number(to.platform_id)} | topic(to.thread_id)
    receiver = content.receiver(to.context)
    if receiver is not None:  # only the sender saw the question, so only the sender sees the answer
        body["ephemeral_message_parameters"] = {"receiver_user_id": number(receiver)}
    return body


def topic(thread_id: str | None) -> dict[str, Any]:
    """The parameter that names a topic; none for a chat without topics, and for General."""
    if not thread_id or thread_id == GENERAL_TOPIC:
        return {}
    name = "direct_messages_topic_id" if thread_id.startswith("dm:") else "message_thread_id"
    return {name: number(thread_id.removeprefix("dm:"))}


def _reply(to: Outgoing, *, is_wanted: bool) -> dict[str, Any]:
    """Only a reply in a group quotes the message that it answers; one that a single person sees quotes none."""
    is_group = to.platform_id.startswith("-")
    if not (is_wanted and to.reply_to and to.is_first and is_group) or content.receiver(to.context) is not None:
        return {}
    return {"reply_parameters": {"message_id": number(to.reply_to), "allow_sending_without_reply": True}}


def _markup(to: Outgoing) -> dict[str, Any]:
    if to.bot_request is not None:
        return {"reply_markup": _bot_keyboard(to.bot_request)}
    return {"reply_markup": {"inline_keyboard": keyboard(to.buttons)}} if to.buttons else {}


def _bot_keyboard(asked: BotRequest) -> dict[str, Any]:
    """One button, which opens Telegram's own dialog. Source: #keyboardbuttonrequestmanagedbot."""
    wanted = {"request_id": asked.request_id, "suggested_name": asked.name, "suggested_username": asked.username}
    key = {"text": f"Make the bot {asked.name}", "request_managed_bot": wanted}
    return {"keyboard": [[key]], "resize_keyboard": True, "one_time_keyboard": True}


def keyboard(buttons: Sequence[Button]) -> list[list[dict[str, str]]]:
    """Short buttons side by side, longer ones below each other."""
    per_row = 3 if sum(len(button.label) for button in buttons) <= SHORT_ROW else 1
    laid_out = button_rows.arrange(buttons, per_row=per_row)
    return [[{"text": button.label, "callback_data": button.token} for button in row] for row in laid_out]


def number(value: str) -> int | str:
    """An id as Telegram writes it; a @name stays a text."""
    return int(value) if re.fullmatch(r"-?[0-9]{1,19}", value) else value
