"""What a test of sending to Telegram gives, and what Telegram answers when it refuses."""

import asyncio
from typing import Any

import httpx

from shared.channels.base import Outgoing, Part
from shared.channels.telegram.channel import TelegramChannel
from tests.fake_client import Answering, FakeClient

NOW = 1_795_168_000_000
PART = Part("bold <x>", "<b>bold</b> &lt;x&gt;")
SENT = {"ok": True, "result": {"message_id": 77}}


class Platform(Answering):
    @property
    def methods(self) -> list[str]:
        return [request.url.path.rpartition("/")[2] for request in self.requests]

    @property
    def calls(self) -> list[Any]:
        """Each call: its method and its parameters."""
        return [*zip(self.methods, self.bodies, strict=True)]


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


def reply(**changes: Any) -> Outgoing:
    return outgoing(**{"reply_to": "12", **changes})


def send(adapter: TelegramChannel, platform: Platform, to: Outgoing | None = None, part: Part = PART) -> str | None:
    return asyncio.run(adapter.send(part, to or reply(), FakeClient(platform), now_ms=NOW)).message_id
