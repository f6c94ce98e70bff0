"""The recorded updates of Telegram, and what the adapter reads of an update."""

import json
from pathlib import Path

from shared.channels.base import WebhookRequest

EVENTS = Path(__file__).parents[3] / "events" / "telegram"
CASES = json.loads((EVENTS / "expected.json").read_text())["cases"]
SECRET = "a-Secret_that-telegram-repeats"
NOW = 1_795_168_000_000
IN_CONTEXT = (
    "forwarded_from", "callback_id", "status", "old_status", "ephemeral_message_id", "old_platform_id",
    "new_platform_id", "draft_id",
)  # fmt: skip


def request(body, secret=SECRET):
    return WebhookRequest("POST", {}, {"x-telegram-bot-api-secret-token": secret}, body)


def receive(adapter, body):
    received = adapter.receive(request(body), now_ms=NOW)
    assert (received.reply.status, received.reply.body) == (200, b"")
    (event,) = received.events
    return event


READ = ("message", "edit", "callback", "reaction", "membership", "migrate", "stop", "ignore")


def update(**message):
    chat = {"id": -100, "type": "supergroup", "title": "Ops"}
    base = {"message_id": 1, "chat": chat, "from": {"id": 5, "first_name": "Bo"}, "date": 1}
    return json.dumps({"update_id": 9, "message": {**base, **message}}).encode()
