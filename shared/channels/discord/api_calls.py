"""Pure decisions about calls to Discord: what an answer means, and which nonce makes two calls one message.

Source: https://docs.discord.com/developers/resources/message#create-message (``nonce``, ``allowed_mentions``),
https://docs.discord.com/developers/topics/opcodes-and-status-codes, https://docs.discord.com/developers/topics/rate-limits.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from shared.channels import button_rows, sanitize
from shared.channels.base import Button, Outgoing, Poll
from shared.channels.discord.limits import retry_after_ms
from shared.channels.platform_api import CallResult

RACE_MS = 2_000  # how long Discord may need to process our answer to an interaction


def nonce(to: Outgoing) -> str:
    """24 characters, the same on every retry of this part and on no other: Discord sends a nonce once."""
    named = f"{to.response_id}:{to.part_index}:{to.asked_at_ms}"
    return hashlib.blake2b(named.encode(), digest_size=12).hexdigest()


def components(buttons: Sequence[Button]) -> list[dict[str, Any]]:
    """Rows of up to five grey buttons. Source: https://docs.discord.com/developers/components/reference."""
    laid_out = button_rows.arrange(buttons, per_row=5)
    shown = [[{"type": 2, "style": 2, "label": key.label, "custom_id": key.token} for key in row] for row in laid_out]
    return [{"type": 1, "components": row} for row in shown]


def poll(asked: Poll) -> dict[str, Any]:
    """Source: https://docs.discord.com/developers/resources/poll#poll-create-request-object."""
    return {
        "question": {"text": asked.question},
        "answers": [{"poll_media": {"text": each}} for each in asked.options],
        "allow_multiselect": asked.is_multiple,
        "duration": asked.hours,
    }


def race_wait_ms(age_ms: int) -> int:
    """The wait before the next attempt in a race; the waits end before ``max_attempts`` is reached."""
    return 250 if age_ms < 250 else 500 if age_ms < 1000 else 1000


_STEPS = {
    10062: "expired",
    10015: "expired",
    50027: "expired",
    10008: "gone",
    30046: "gone",
    50005: "gone",
}
_PLACE_GONE = (10003, 50083, 160005)
_NOWHERE_ELSE = "the channel or thread is deleted, archived or locked, and the answer goes nowhere else"
_WAITS = (20016, 20028, 40062, 130000)
_FILES_REFUSED = (40005, 20009)  # the request is too large; explicit content
_ALREADY_ANSWERED = 40060
_INVALID_BODY = 50035


def classify(status: int, payload: dict[str, Any], headers: Mapping[str, str] | None = None) -> CallResult:
    """The meaning of *status*, the JSON *payload* and the *headers* that answered a message call. Pure."""
    code = payload.get("code")
    reason = f"Discord {status}: {sanitize.name(str(payload.get('message', '')))[:200] or 'no message'} (code {code})"
    if 200 <= status < 300 or code == _ALREADY_ANSWERED:
        number = payload.get("id")
        return CallResult("sent", message_id=number if isinstance(number, str) else None)
    if status == 429 or code in _WAITS:
        return CallResult("wait", reason, retry_after_ms=retry_after_ms(payload, headers))
    if code in _STEPS:
        return CallResult("permanent", reason, step=_STEPS[code])
    if status == 413 or code in _FILES_REFUSED:
        return CallResult("files_refused", reason)
    if code == _INVALID_BODY and _is_too_long(payload):
        return CallResult("too_long", reason)
    if code in _PLACE_GONE:
        return CallResult("place_gone", f"{reason}; {_NOWHERE_ELSE}")
    if status == 401:
        return CallResult("refused", f"{reason}; check DISCORD_BOT_TOKEN")
    if status >= 500:
        return CallResult("down", reason)
    return CallResult("permanent" if 400 <= status < 500 else "unknown", reason)


def _is_too_long(payload: dict[str, Any]) -> bool:
    """Whether error 50035 is about the length of the text.

    Source: https://docs.discord.com/developers/reference#error-messages.
    """
    match payload:
        case {"errors": {"content": {"_errors": [*problems]}}}:
            return any(isinstance(each, dict) and each.get("code") == "BASE_TYPE_MAX_LENGTH" for each in problems)
    return False
