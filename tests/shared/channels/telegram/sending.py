"""What a test of sending to Telegram gives, and what Telegram answers when it refuses."""

from typing import Any

import httpx

from shared.channels.base import Outgoing

NOW = 1_795_168_000_000


def outgoing(**changes: Any) -> Outgoing:
    usual: dict[str, Any] = {
        "response_id": 1,
        "part_index": 0,
        "platform_id": "5000000001",
        "thread_id": None,
        "reply_to": None,
        "context": {},
        "asked_at_ms": NOW,
        "is_first": True,
    }
    return Outgoing(**{**usual, **changes})


def refusal(description: str, code: int = 400, **parameters: Any) -> httpx.Response:
    return httpx.Response(
        code, json={"ok": False, "error_code": code, "description": description, "parameters": parameters}
    )
