"""Telegram for the suite of all channels."""

import json

import httpx

from tests.shared.channels.kits import ChannelKit, Recorded
from tests.shared.channels.telegram.receiving import CASES, EVENTS, IN_CONTEXT, READ, request

SECRET = "a-Secret_that-telegram-repeats"
TOKEN = "7100200300:AAExampleExampleExampleExampleExample"
CONTENT = b"\x89PNG\r\n\x1a\n0123456789"


def accepts(asked):
    """Any call: a message is sent, a file is there."""
    method = asked.url.path.rpartition("/")[2]
    if "/file/" in asked.url.path:
        return httpx.Response(200, content=CONTENT)
    results = {
        "getFile": {"file_id": "f1", "file_unique_id": "u1", "file_size": len(CONTENT), "file_path": "photos/1.png"},
        "getWebhookInfo": {"url": "", "has_custom_certificate": False, "pending_update_count": 0},
        "sendMediaGroup": [{"message_id": 77 + number} for number in range(asked.content.count(b"attach://"))],
        "createForumTopic": {"message_thread_id": 7, "name": "Plans", "icon_color": 0x6FB9F0},
        "getMe": {"id": 7100200300, "is_bot": True, "first_name": "Aurora"},
    }
    known = method.startswith("send") and method not in ("sendChatAction", "sendMessageDraft")
    result = results.get(method, {"message_id": 77} if known else True)
    return httpx.Response(200, json={"ok": True, "result": result})


def _is_whole(case):
    """Some bodies have no id by which a redelivery could be recognised; they have tests of their own."""
    return type(json.loads((EVENTS / case["file"]).read_bytes()).get("update_id")) is int


KIT = ChannelKit(
    environment={
        "TELEGRAM_BOT_TOKEN": TOKEN,
        "TELEGRAM_WEBHOOK_SECRET": SECRET,
        "TELEGRAM_BOT_USERNAME": "aurora_helper_bot",
        "TELEGRAM_API_BASE": "http://127.0.0.1:1",
    },
    sign=request,
    recorded=[
        Recorded(case["file"], (EVENTS / case["file"]).read_bytes(), case["expect"])
        for case in CASES
        if case["expect"]["kind"] in READ and "account" not in case and _is_whole(case)
    ],
    in_context=IN_CONTEXT,
    accepts=accepts,
    asks_token="getMe",
    direct="5000000001",
    group="-1001234567890",
    attachment={"kind": "photo", "file_id": "f1", "size": len(CONTENT)},
    content=CONTENT,
    secrets=(TOKEN, TOKEN.partition(":")[2], SECRET),
)
