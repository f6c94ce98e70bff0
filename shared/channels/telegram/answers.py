"""What an answer of the Bot API means. Pure.

Source: https://core.telegram.org/bots/api (10.3): #making-requests (``parameters.retry_after``,
``migrate_to_chat_id``), and the texts of the Bot API server.
"""

from typing import Any

from shared.channels import sanitize
from shared.channels.platform_api import CallResult
from shared.channels.telegram.limits import retry_after_ms

CONFLICT_WAIT_MS = 60_000
_NOWHERE_ELSE = "the topic is closed or deleted, and the answer goes nowhere else: reopen it, then retry the response"
_BACK = "nothing more is sent there until the bot is let in again"
_PLACE_GONE = ("message thread not found", "topic_closed", "topic_deleted", "topic_id_invalid")
_CHAT_GONE = ("chat not found", "peer_id_invalid", "group chat was deleted", "group chat was deactivated")
_NO_RIGHTS = ("rights", "chat_write_forbidden", "chat_send_", "messages_forbidden", "restricted")
_TOO_LONG = ("message is too long", "message too long", "caption is too long", "caption too long")
_STEPS = {
    "text is too long": "plain",
    "text is empty": "plain",  # the markup leaves nothing to show
    "text must be non-empty": "plain",
    "unsupported start tag": "plain",
    "entit": "plain",  # can't parse entities, entity URL is invalid, ENTITIES_TOO_LONG, ENTITY_BOUNDS_INVALID
    "message to be replied not found": "no_reply",
    "reply message not found": "no_reply",
    "there is no text in the message to edit": "caption",
    "message to edit not found": "new_message",
    "message can't be edited": "new_message",
    "message_id_invalid": "new_message",
    "message identifier is not specified": "new_message",
    "photo_invalid_dimensions": "documents",
    "photo_ext_invalid": "documents",
    "image_process_failed": "documents",
    "photo_save_file_invalid": "documents",
    "photo should be": "documents",
    "voice_messages_forbidden": "documents",
    "media of the specified type in the album": "documents",
    "mixed with other media types": "documents",
    "media_type_invalid": "documents",
    "wrong file type": "documents",
}


def classify(status: int, payload: dict[str, Any]) -> CallResult:
    """The meaning of *status* and the JSON *payload* that answered a call."""
    description = str(payload.get("description", ""))
    said = description.lower()
    reason = f"Telegram {status}: {sanitize.name(description)[:200] or 'no description'}"
    if 200 <= status < 300:
        return _sent(payload)
    if "message is not modified" in said or "message_not_modified" in said:
        return CallResult("sent")
    match status:
        case 429:
            return CallResult("wait", reason, retry_after_ms=retry_after_ms(payload))
        case 400 | 403 if _migrated_to(payload):
            return CallResult("moved", reason, new_chat_id=_migrated_to(payload))
        case 400 | 403:
            return _objection(status, said, reason)
        case 401 | 404:
            return CallResult("refused", f"{reason}; check TELEGRAM_BOT_TOKEN and TELEGRAM_API_BASE")
        case 409:
            return CallResult("retry", reason, retry_after_ms=CONFLICT_WAIT_MS)
    if 400 <= status < 500:
        return CallResult("permanent", reason)
    return CallResult("down" if status >= 500 else "unknown", reason)


def _objection(status: int, said: str, reason: str) -> CallResult:
    """What the description *said* in small letters objects to."""
    if any(words in said for words in _PLACE_GONE):
        return CallResult("place_gone", f"{reason}; {_NOWHERE_ELSE}")
    if any(words in said for words in _CHAT_GONE) or (status == 403 and not any(words in said for words in _NO_RIGHTS)):
        return CallResult("chat_gone", f"{reason}; {_BACK}")
    if any(words in said.replace("_", " ") for words in _TOO_LONG):
        return CallResult("too_long", reason)
    step = next((step for words, step in _STEPS.items() if words in said), "") if status == 400 else ""
    return CallResult("give_way" if step else "permanent", reason, step)


def _sent(payload: dict[str, Any]) -> CallResult:
    match payload:
        case {"result": {"message_id": int(number)}}:
            return CallResult("sent", message_id=str(number))
        case {"result": [{"message_id": int(number)}, *others]}:
            also = (other.get("message_id") for other in others if isinstance(other, dict))
            return CallResult("sent", message_id=str(number), also=tuple(str(each) for each in also if each))
        case {"ok": True}:
            return CallResult("sent")
    return CallResult("unknown", "Telegram answered 2xx without a message id")


def _migrated_to(payload: dict[str, Any]) -> str:
    match payload:
        case {"parameters": {"migrate_to_chat_id": int(number)}}:
            return str(number)
    return ""
