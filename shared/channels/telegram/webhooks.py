"""The webhook of a bot: what we register, and what ``getWebhookInfo`` says of it. Pure.

Source: https://core.telegram.org/bots/api (10.3): #setwebhook, #getwebhookinfo, #webhookinfo.
"""

from typing import Any
from urllib.parse import urlsplit

from shared.channels import sanitize
from shared.channels.base import Registration
from shared.core.text import redaction

UPDATES = (
    "message", "edited_message", "channel_post", "edited_channel_post", "callback_query", "my_chat_member",
    "message_reaction", "stopped_message_generation", "managed_bot",
)  # fmt: skip
_NOT_BY_DEFAULT = ("chat_member", "message_reaction", "message_reaction_count")
CONNECTIONS = 40  # deliveries at once, of different chats; Telegram's own default


def parameters(url: str, secret: str) -> dict[str, Any]:
    """Everything that ``setWebhook`` should keep: it forgets what a call does not name, and never the backlog."""
    return {
        "url": url,
        "secret_token": secret,
        "allowed_updates": list(UPDATES),
        "max_connections": CONNECTIONS,
        "drop_pending_updates": False,
    }


def registration_of(said: Any, ours: str) -> Registration:
    """The facts of what ``getWebhookInfo`` *said*, beside *ours*, our own address; empty: it is not known."""
    info = said if isinstance(said, dict) else {}
    url = _text(info.get("url"))
    failed_at, backlog = info.get("last_error_date"), info.get("pending_update_count")
    return Registration(
        is_ours=url == ours if ours else None,
        url=shown(url) or None,
        backlog=backlog if isinstance(backlog, int) else None,
        missing=missing(info) if url else (),
        last_error=redaction.redact(_text(info.get("last_error_message"))) or None,
        last_error_at_ms=failed_at * 1000 if isinstance(failed_at, int) else None,
        ours=shown(ours) or None,
    )


def missing(info: dict[str, Any]) -> tuple[str, ...]:
    """The kinds of updates that we use and that are not registered."""
    allowed = info.get("allowed_updates")
    if not isinstance(allowed, list) or not allowed:  # Telegram's default
        return tuple(name for name in UPDATES if name in _NOT_BY_DEFAULT)
    return tuple(name for name in UPDATES if name not in allowed)


def shown(url: str) -> str:
    """*url* for people: another program's address may hold its secrets."""
    try:
        address = urlsplit(url)
        port = f":{address.port}" if address.port else ""
    except ValueError:
        return ""
    place = f"{address.scheme}://{address.hostname or ''}{port}{address.path}" if address.scheme else ""
    return redaction.redact(sanitize.name(place))[:200]


def _text(value: Any) -> str:
    return sanitize.name(value) if isinstance(value, str) else ""
