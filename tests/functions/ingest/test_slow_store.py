"""While the database takes no event for longer than the platform may wait, the platform is told to send it again."""

import asyncio
import threading

import pytest

from functions import ingest
from shared.db.engine.connection import rows
from tests.functions.ingest.kit import ask, telegram
from tests.support import column


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(ingest, "_STORE_LIMIT_S", 0.05)


def test_it_is_a_503_and_the_event_that_is_stored_later_is_one_row_with_its_redelivery(serving, conn):
    async def go():
        async with serving(ingest) as client:
            rows(conn, "BEGIN IMMEDIATE")
            first = await client.post("/webhooks/telegram", **telegram())
            rows(conn, "ROLLBACK")
            return first, await client.post("/webhooks/telegram", **telegram())

    first, second = asyncio.run(go())
    assert (first.status_code, first.headers["retry-after"]) == (503, "5")
    assert first.json() == {"error": "not stored within 0.05 s"}
    assert second.status_code in (200, 503), "the limit of this test is short"
    assert column(conn, "SELECT count(*) FROM messages") == [1]


def test_what_a_brief_platform_was_not_promised_is_withdrawn_also_after_that_time(serving, conn, monkeypatch):
    """Its commit is under way and is given up by nobody; no turn takes what the person was told is not done."""
    monkeypatch.setattr(ingest, "_BRIEF_LIMIT_S", 0.1)
    monkeypatch.setattr(ingest, "_BRIEF_ANSWER_S", 0.15)

    go_on = threading.Event()

    async def go():
        async with serving(ingest) as client:
            writer = ingest._service.get().writer
            await writer.run(lambda own: own.set_commit_hook(lambda: not go_on.wait(60)) or go_on.set())
            go_on.clear()
            asyncio.get_running_loop().call_later(0.4, go_on.set)
            return await client.post(**ask())

    assert asyncio.run(go()).json()["type"] == 4
    assert column(conn, "SELECT status FROM messages") == ["cancelled"]


def test_what_could_not_be_withdrawn_at_once_is_withdrawn_later(serving, conn, monkeypatch):
    """The commit of the event is slow, and the disk refuses the next one."""
    monkeypatch.setattr(ingest, "_BRIEF_LIMIT_S", 0.1)
    monkeypatch.setattr(ingest, "_BRIEF_ANSWER_S", 0.15)
    monkeypatch.setattr(ingest, "_WITHDRAWS_AGAIN_S", (0.0,))
    go_on = threading.Event()
    go_on.set()
    refused = iter([False, False, True])  # of commits: this one's, the event's, and that of its withdrawal

    async def go():
        async with serving(ingest) as client:
            writer = ingest._service.get().writer
            await writer.run(lambda own: own.set_commit_hook(lambda: not go_on.wait(60) or next(refused, False)))
            go_on.clear()
            asyncio.get_running_loop().call_later(0.4, go_on.set)
            return await client.post(**ask())

    assert asyncio.run(go()).json()["type"] == 4
    assert list(refused) == []
    assert column(conn, "SELECT status FROM messages") == ["cancelled"]


def test_what_the_replica_does_not_confirm_within_the_whole_limit_is_withdrawn(replicated, conn, monkeypatch):
    monkeypatch.setattr(ingest, "_BRIEF_LIMIT_S", 1.0)
    monkeypatch.setattr(ingest, "_BRIEF_ANSWER_S", 1.0)

    async def go():
        async with replicated() as (client, litestream):
            litestream.may_answer.clear()
            answer = await client.post(**ask())
            litestream.may_answer.set()
            return answer

    assert asyncio.run(go()).json()["type"] == 4
    assert column(conn, "SELECT status FROM messages") == ["cancelled"]
