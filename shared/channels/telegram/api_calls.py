"""Pure decisions about calls to Telegram: what to call, what an answer means, and how to simplify a refused call.

Source: https://core.telegram.org/bots/api (10.3): #sendmessage, #editmessagetext, #inlinekeyboardmarkup,
#making-requests (``parameters.retry_after``, ``migrate_to_chat_id``).
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from shared.channels import button_rows, sanitize
from shared.channels.base import Button, Outgoing, Part
from shared.channels.platform_api import CallResult
from shared.channels.telegram.limits import retry_after_ms
from shared.core import content

SHORT_ROW = 24  # characters of all labels in one row; a phone would cut longer ones
GENERAL_TOPIC = "1"  # has no id in the API: Telegram answers "message thread not found" to 1
CONFLICT_WAIT_MS = 60_000


class BotApiCall(NamedTuple):
    """One call of the Bot API; *edits* is the id of the message that it changes, or None."""

    method: str
    body: dict[str, Any]
    edits: str | None = None


def message_call(part: Part, to: Outgoing) -> BotApiCall:
    """``sendMessage``. Only a reply in a group quotes the message that it answers."""
    body = _body(part, to)
    if to.thread_id and to.thread_id != GENERAL_TOPIC:
        name = "direct_messages_topic_id" if to.thread_id.startswith("dm:") else "message_thread_id"
        body[name] = _number(to.thread_id.removeprefix("dm:"))
    if to.reply_to and to.is_first and to.platform_id.startswith("-"):
        body["reply_parameters"] = {"message_id": _number(to.reply_to), "allow_sending_without_reply": True}
    receiver = content.receiver(to.context)
    if receiver is not None:  # only the sender saw the question, so only the sender sees the answer
        body.pop("reply_parameters", None)
        body["ephemeral_message_parameters"] = {"receiver_user_id": _number(receiver)}
    return BotApiCall("sendMessage", body)


def edit_call(part: Part, to: Outgoing) -> BotApiCall:
    """``editMessageText``; Telegram removes buttons that the call does not name."""
    return BotApiCall("editMessageText", {**_body(part, to), "message_id": _number(to.edits or "")}, to.edits)


def _body(part: Part, to: Outgoing) -> dict[str, Any]:
    body: dict[str, Any] = {"chat_id": _number(to.platform_id), "link_preview_options": {"is_disabled": True}}
    body |= {"text": part.text} if part.html is None else {"text": part.html, "parse_mode": "HTML"}
    if to.buttons:
        body["reply_markup"] = {"inline_keyboard": keyboard(to.buttons)}
    return body


def keyboard(buttons: Sequence[Button]) -> list[list[dict[str, str]]]:
    """Short buttons side by side, longer ones below each other."""
    per_row = 3 if sum(len(button.label) for button in buttons) <= SHORT_ROW else 1
    laid_out = button_rows.arrange(buttons, per_row=per_row)
    return [[{"text": button.label, "callback_data": button.token} for button in row] for row in laid_out]


def _number(value: str) -> int | str:
    return int(value) if re.fullmatch(r"-?[0-9]{1,19}", value) else value


def classify(status: int, payload: dict[str, Any]) -> CallResult:
    """The meaning of *status* and the JSON *payload* that answered a message call. Pure."""
    description = str(payload.get("description", ""))
    said = description.lower()
    reason = f"Telegram {status}: {sanitize.name(description)[:200] or 'no description'}"
    if 200 <= status < 300:
        return _sent(payload)
    if "message is not modified" in said:
        return CallResult("sent")
    match status:
        case 429:
            return CallResult("wait", reason, retry_after_ms=retry_after_ms(payload))
        case 400 | 403 if _migrated_to(payload) is not None:
            return CallResult("give_way", reason, "rename", new_chat_id=_migrated_to(payload))
        case 400:
            return _objection(said, reason)
        case 401 | 404:
            hint = "check TELEGRAM_BOT_TOKEN and TELEGRAM_API_BASE"
            return CallResult("refused", f"{reason}; {hint}")
        case 409:
            return CallResult("retry", reason, retry_after_ms=CONFLICT_WAIT_MS)
    if 400 <= status < 500:
        return CallResult("permanent", reason)
    return CallResult("down" if status >= 500 else "unknown", reason)


def _objection(said: str, reason: str) -> CallResult:
    """What the description *said* in small letters objects to."""
    if any(words in said for words in _PLACE_GONE):
        return CallResult("place_gone", f"{reason}; {_NOWHERE_ELSE}")
    if any(words in said.replace("_", " ") for words in _TOO_LONG):
        return CallResult("too_long", reason)
    step = next((step for words, step in _STEPS.items() if words in said), "")
    return CallResult("give_way" if step else "permanent", reason, step)


_PLACE_GONE = ("message thread not found", "topic_closed", "topic_deleted")
_NOWHERE_ELSE = "the topic is closed or deleted, and the answer goes nowhere else: reopen it, then retry the response"
_TOO_LONG = ("message is too long", "message too long", "caption is too long", "caption too long")
_STEPS = {
    "entit": "plain",  # can't parse entities, entity URL is invalid, ENTITIES_TOO_LONG, ENTITY_BOUNDS_INVALID
    "unsupported start tag": "plain",
    "text is too long": "plain",
    "message to be replied not found": "no_reply",
    "message to edit not found": "new_message",
    "message can't be edited": "new_message",
    "message_id_invalid": "new_message",
    "message identifier is not specified": "new_message",
}


def _sent(payload: dict[str, Any]) -> CallResult:
    match payload:
        case {"result": {"message_id": int(number)}}:
            return CallResult("sent", message_id=str(number))
        case {"ok": True}:
            return CallResult("sent")
    return CallResult("unknown", "Telegram answered 2xx without a message id")


def _migrated_to(payload: dict[str, Any]) -> int | None:
    match payload:
        case {"parameters": {"migrate_to_chat_id": int(number)}}:
            return number
    return None


def simplify(call: BotApiCall, result: CallResult, part: Part, to: Outgoing) -> BotApiCall:
    """*call* without the part that Telegram objects to; the same call where nothing can be simplified."""
    simpler = dict(call.body)
    match result.step:
        case "plain":
            simpler["text"] = part.text
            simpler.pop("parse_mode", None)
        case "no_reply":
            simpler.pop("reply_parameters", None)
        case "rename":
            simpler["chat_id"] = result.new_chat_id
        case "new_message" if call.edits:
            return message_call(part, to)
    return call._replace(body=simpler)
