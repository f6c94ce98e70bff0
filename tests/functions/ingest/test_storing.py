"""A webhook is stored once, or refused with a reason."""

import asyncio
import json

import pytest

from functions import ingest
from shared.db.engine import connection
from shared.db.engine.connection import rows, transaction
from shared.db.roster import chats
from shared.roster import wirings
from shared.runtime.kick import Listener
from tests.functions.ingest.kit import EVENTS, PRIVATE, drained, numbered, post, telegram
from tests.support import NOW, column, dump, row


def test_a_press_of_an_old_button_is_answered_so_that_it_stops_waiting(serving, conn):
    body = (EVENTS / "telegram/101_callback_query_topic.json").read_bytes()
    (answer,) = post(serving, telegram(body))
    press = json.loads(body)["callback_query"]["id"]
    assert answer.json() == {"method": "answerCallbackQuery", "callback_query_id": press}


def test_a_message_is_stored_and_answered_with_an_empty_200(serving, conn):
    (answer,) = post(serving, telegram())
    assert (answer.status_code, answer.content) == (200, b"")
    found = row(conn, "messages")
    names = ("channel", "platform_id", "sender", "sender_id", "message", "status", "agent")
    assert [found[name] for name in names] == [
        *("telegram", "5000000001", "Ana Ruiz", "5000000001", "Hello, can you summarise yesterday?"),
        *("pending", "assistant"),
    ]


REFUSED = {
    "no secret": ({"content": PRIVATE}, 401),
    "a wrong secret": ({"content": PRIVATE, "headers": {"x-telegram-bot-api-secret-token": "guess"}}, 401),
    "a secret that is no ASCII": ({"content": PRIVATE, "headers": {b"x-telegram-bot-api-secret-token": b"\xe9"}}, 401),
    "a GET without a secret": ({"method": "GET"}, 401),
    "an unknown channel": (telegram(url="/webhooks/whatsapp"), 404),
    "a channel that is a path": (telegram(url="/webhooks/..%2f..%2fetc"), 404),
    "another path": (telegram(url="/elsewhere"), 404),
    "another method": (telegram(method="PUT"), 405),
    "too large": (telegram(b"x" * (1024 * 1024 + 1)), 413),
    "Discord without a signature": ({"url": "/webhooks/discord", "content": b'{"type": 1}'}, 401),
}


@pytest.mark.parametrize(("call", "status"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_says_why_and_stores_nothing(serving, conn, call, status):
    before = dump(conn)
    (answer,) = post(serving, call)
    assert answer.status_code == status
    assert answer.json()["error"]
    assert dump(conn) == before


UNREADABLE = {
    "no JSON": b"{",
    "no UTF-8": b'{"update_id": "\xff"}',
    "no update": b"[]",
    "nothing": b"",
    "deep": b"[" * 99_999,
}


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_an_unreadable_body_is_acknowledged_and_its_reason_recorded_once(serving, conn, body):
    """After an error, Telegram would repeat it for a day and hold back later updates."""
    answers = post(serving, telegram(body), telegram(body))
    assert [answer.status_code for answer in answers] == [200, 200]
    assert rows(conn, "SELECT channel, reason FROM dropped") == [("telegram", "payload")]
    assert column(conn, "SELECT id FROM messages") == []


def test_a_redelivery_is_one_row_even_twenty_times_at_once(serving, conn):
    answers = post(serving, *[telegram()] * 20)
    assert {answer.status_code for answer in answers} == {200}
    assert column(conn, "SELECT count(*) FROM messages") == [1]
    post(serving, telegram())
    assert column(conn, "SELECT count(*) FROM messages") == [1]
    assert column(conn, "SELECT count(*) FROM sessions") == [1]
    assert column(conn, "SELECT count(*) FROM wirings") == [1]


def test_dispatch_is_kicked_for_new_messages_only(serving, environment):
    listener = Listener(environment, "dispatch")
    kicks = []

    async def go():
        async with serving(ingest) as client:
            for body in (PRIVATE, PRIVATE, numbered(1)):
                await client.post("/webhooks/telegram", **telegram(body))
                await asyncio.sleep(0)  # the requests of the same commit resume first
                kicks.append(drained(listener))

    asyncio.run(go())
    listener.close()
    assert kicks == [True, False, True]


def test_a_locked_database_is_a_503_with_retry_after_and_nothing_is_stored(serving, conn, monkeypatch):
    monkeypatch.setattr(connection, "_BUSY_LIMIT_S", 0.02)
    rows(conn, "BEGIN IMMEDIATE")
    (answer,) = post(serving, telegram())
    rows(conn, "ROLLBACK")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json() == {"error": "not stored: BusyError"}
    assert column(conn, "SELECT id FROM messages") == []
    (answer,) = post(serving, telegram())
    assert answer.status_code == 200
    assert column(conn, "SELECT count(*) FROM messages") == [1]


def test_a_full_disk_is_a_503_and_the_redelivery_is_stored_when_there_is_room(serving, conn):
    async def go():
        async with serving(ingest) as client:
            writer = ingest._service.get().writer

            def limit(pages):
                return writer.run(lambda own: rows(own, f"PRAGMA max_page_count = {pages}") and None)

            await limit(1)
            long = json.loads(PRIVATE)
            long["message"]["text"] = "x" * 200_000
            full = await client.post("/webhooks/telegram", **telegram(json.dumps(long).encode()))
            nothing = dump(conn)["messages"], dump(conn)["dropped"]
            await limit(1_000_000)
            again = await client.post("/webhooks/telegram", **telegram(json.dumps(long).encode()))
            return full, nothing, again

    full, nothing, again = asyncio.run(go())
    assert (full.status_code, full.json()) == (503, {"error": "not stored: FullError"})
    assert nothing == ([], [])
    assert again.status_code == 200
    assert column(conn, "SELECT length(message) FROM messages") == [200_000]


def test_deliver_is_kicked_for_our_own_notices(serving, environment, conn, monkeypatch):
    monkeypatch.setenv("POSTROOM_NEW_CHATS", "refuse")
    listeners = {name: Listener(environment, name) for name in ("dispatch", "deliver")}
    update = json.loads(PRIVATE)
    with transaction(conn):
        chat = chats.ensure(conn, "telegram", "5000000001", is_group=False, sender_policy="public", now_ms=NOW)
        wirings.connect(conn, chat.id, "assistant", now_ms=NOW)

    async def go():
        async with serving(ingest) as client:
            update["message"]["text"] = "/clear"
            await client.post("/webhooks/telegram", **telegram(json.dumps(update).encode()))
            await asyncio.sleep(0)
            return {name: drained(listener) for name, listener in listeners.items()}

    kicked = asyncio.run(go())
    for listener in listeners.values():
        listener.close()
    assert kicked == {"dispatch": False, "deliver": True}


def test_health_needs_no_secret(serving):
    (answer,) = post(serving, {"method": "GET", "url": "/healthz"})
    assert answer.json() == {"ok": True, "function": "ingest"}
