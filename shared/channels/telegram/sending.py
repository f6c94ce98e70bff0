"""What Telegram is asked to do, and what its answers mean: all of it decided without calling anybody.

Source: https://core.telegram.org/bots/api (10.3): #sendmessage, #editmessagetext, #inlinekeyboardmarkup,
#making-requests (``parameters.retry_after``, ``migrate_to_chat_id``).
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from shared.channels import button_rows, sanitize
from shared.channels.base import Button, Outgoing, Part
from shared.channels.platform_api import CallResult

SHORT_ROW = 24  # characters of labels that stand side by side; on a phone, longer ones would be cut
GENERAL_TOPIC = "1"  # it has no id of its own: sending to 1 is "message thread not found"
DEFAULT_WAIT_MS = 5_000
REFUSED_TOKEN_WAIT_MS = 60_000


class BotApiCall(NamedTuple):
    """One call of the Bot API; *edits* is the message that it changes, or None."""

    method: str
    body: dict[str, Any]
    edits: str | None = None


def message_call(part: Part, to: Outgoing) -> BotApiCall:
    """``sendMessage``. Only an answer in a group says which message it answers."""
    body = _body(part, to)
    if to.thread_id and to.thread_id != GENERAL_TOPIC:
        name = "direct_messages_topic_id" if to.thread_id.startswith("dm:") else "message_thread_id"
        body[name] = _number(to.thread_id.removeprefix("dm:"))
    if to.reply_to and to.is_first and to.platform_id.startswith("-"):
        body["reply_parameters"] = {"message_id": _number(to.reply_to), "allow_sending_without_reply": True}
    if to.context.get("ephemeral_message_id"):  # only the one who asked saw the question, so only they see the answer
        body.pop("reply_parameters", None)
        body["ephemeral_message_parameters"] = {"receiver_user_id": _number(str(to.context.get("receiver_user_id")))}
    return BotApiCall("sendMessage", body)


def edit_call(part: Part, to: Outgoing) -> BotApiCall:
    """``editMessageText``; buttons that are not named go away."""
    return BotApiCall("editMessageText", {**_body(part, to), "message_id": _number(to.edits or "")}, to.edits)


def _body(part: Part, to: Outgoing) -> dict[str, Any]:
    body: dict[str, Any] = {"chat_id": _number(to.platform_id), "link_preview_options": {"is_disabled": True}}
    body |= {"text": part.text} if part.html is None else {"text": part.html, "parse_mode": "HTML"}
    if to.buttons:
        body["reply_markup"] = {"inline_keyboard": keyboard(to.buttons)}
    return body


def keyboard(buttons: Sequence[Button]) -> list[list[dict[str, str]]]:
    """Short buttons side by side, others below each other."""
    per_row = 3 if sum(len(button.label) for button in buttons) <= SHORT_ROW else 1
    laid_out = button_rows.arrange(buttons, per_row=per_row)
    return [[{"text": button.label, "callback_data": button.token} for button in row] for row in laid_out]


def _number(value: str) -> int | str:
    return int(value) if re.fullmatch(r"-?[0-9]{1,19}", value) else value


def classify(status: int, payload: dict[str, Any]) -> CallResult:
    """Decide, without doing anything, what *status* and the JSON *payload* of a message call ask for."""
    description = str(payload.get("description", ""))
    said = description.lower()
    reason = f"Telegram {status}: {sanitize.name(description)[:200] or 'no description'}"
    if 200 <= status < 300:
        return _sent(payload)
    if "message is not modified" in said:
        return CallResult("sent")
    match status:
        case 429:
            return CallResult("wait", reason, retry_after_ms=_retry_after_ms(payload))
        case 400 | 403 if _migrated_to(payload) is not None:
            return CallResult("give_way", reason, "rename", new_chat_id=_migrated_to(payload))
        case 400:
            step = next((step for words, step in _STEPS.items() if words in said), "")
            return CallResult("give_way" if step else "permanent", reason, step)
        case 401 | 404:
            hint = "check TELEGRAM_BOT_TOKEN and TELEGRAM_API_BASE"
            return CallResult("retry", f"{reason}; {hint}", retry_after_ms=REFUSED_TOKEN_WAIT_MS)
        case 409:
            return CallResult("retry", reason, retry_after_ms=REFUSED_TOKEN_WAIT_MS)
    if 400 <= status < 500:
        return CallResult("permanent", reason)
    return CallResult("unknown", reason)


_STEPS = {
    "can't parse entities": "plain",
    "entity url": "plain",
    "unsupported start tag": "plain",
    "text is too long": "plain",
    "message to be replied not found": "no_reply",
    "message thread not found": "no_thread",
    "topic_closed": "no_thread",
    "topic_deleted": "no_thread",
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
    return CallResult("unknown", "Telegram said 2xx, but not what it sent")


def _retry_after_ms(payload: dict[str, Any]) -> int:
    match payload:
        case {"parameters": {"retry_after": int(seconds)}}:
            return max(seconds, 1) * 1000
    return DEFAULT_WAIT_MS


def _migrated_to(payload: dict[str, Any]) -> int | None:
    match payload:
        case {"parameters": {"migrate_to_chat_id": int(number)}}:
            return number
    return None


def simplify(call: BotApiCall, result: CallResult, part: Part, to: Outgoing) -> BotApiCall:
    """*call* without what Telegram minded; the same call where there is nothing left to give up."""
    simpler = dict(call.body)
    match result.step:
        case "plain":
            simpler["text"] = part.text
            simpler.pop("parse_mode", None)
        case "no_thread":
            simpler.pop("message_thread_id", None)
        case "no_reply":
            simpler.pop("reply_parameters", None)
        case "rename":
            simpler["chat_id"] = result.new_chat_id
        case "new_message" if call.edits:
            return message_call(part, to)
    return call._replace(body=simpler)
