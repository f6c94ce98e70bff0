"""A further account is looked up in the database before its event is parsed."""

import asyncio

from functions import ingest
from shared.db.engine.connection import rows, transaction
from shared.db.roster import accounts
from tests.functions.ingest.kit import PRIVATE
from tests.support import NOW, column

HEADERS = {"x-telegram-bot-api-secret-token": "of-sales"}


def test_an_account_that_cannot_be_looked_up_is_a_503_and_is_stored_when_it_can(serving, conn, monkeypatch):
    """The platform sends the event again after a 503 with Retry-After; after a 500 it may give up."""
    monkeypatch.setenv("TELEGRAM_SALES_BOT_TOKEN", "7100200301:BB")
    monkeypatch.setenv("TELEGRAM_SALES_WEBHOOK_SECRET", "of-sales")
    with transaction(conn):
        accounts.add(conn, "telegram.sales", now_ms=NOW)

    async def go():
        async with serving(ingest) as client:
            rows(conn, "ALTER TABLE accounts RENAME TO elsewhere")
            refused = await client.post("/webhooks/telegram.sales", content=PRIVATE, headers=HEADERS)
            rows(conn, "ALTER TABLE elsewhere RENAME TO accounts")
            return refused, await client.post("/webhooks/telegram.sales", content=PRIVATE, headers=HEADERS)

    refused, taken = asyncio.run(go())
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert refused.json() == {"error": "the accounts can't be read: SQLError"}
    assert taken.status_code == 200
    assert column(conn, "SELECT channel FROM messages") == ["telegram.sales"]
