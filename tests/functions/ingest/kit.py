"""What platforms send to ``ingest``, and how the tests post it."""

import asyncio
import json
import select
import time
from pathlib import Path

from nacl.signing import SigningKey

from functions import ingest

EVENTS = Path(__file__).parents[2] / "events"
PRIVATE = (EVENTS / "telegram/001_private_text.json").read_bytes()
DM = json.loads((EVENTS / "discord/011_slash_dm.json").read_text())["channel_id"]
SECRET = {"x-telegram-bot-api-secret-token": "a-Secret_that-telegram-repeats"}
KEY = SigningKey(bytes.fromhex(json.loads((EVENTS / "discord/signatures.json").read_text())["test_private_seed"]))


def discord(body, at=None):
    """A signed request from Discord: headers and body."""
    timestamp = str(int(time.time()) if at is None else at)
    signature = KEY.sign(timestamp.encode() + body).signature.hex()
    return {"headers": {"x-signature-ed25519": signature, "x-signature-timestamp": timestamp}, "content": body}


def post(serving, *calls, path="/webhooks/telegram"):
    """The answers to *calls*, which run at the same time."""

    async def go():
        async with serving(ingest) as client:
            return await asyncio.gather(*(client.request(**{"method": "POST", "url": path, **call}) for call in calls))

    return asyncio.run(go())


def telegram(body=PRIVATE, **fields):
    return {"content": body, "headers": SECRET, **fields}


def ask(name="011_slash_dm.json"):
    return {"url": "/webhooks/discord", **discord((EVENTS / "discord" / name).read_bytes())}


def numbered(number):
    update = json.loads(PRIVATE)
    update["update_id"] += 1 + number
    update["message"]["message_id"] += 1 + number
    return json.dumps(update).encode()


def drained(listener):
    is_kicked = bool(select.select([listener.fileno()], [], [], 0)[0])
    listener.drain()
    return is_kicked
