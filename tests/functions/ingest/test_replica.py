"""An event is acknowledged only when the replica has it, where a 2xx promises that."""

import asyncio

import pytest

from shared.core.errors import ConfigInvalid
from tests.functions.ingest.kit import EVENTS, PRIVATE, discord, numbered, post, telegram
from tests.support import column

WAITS = {
    "a message": PRIVATE,
    "what asks no agent": (EVENTS / "telegram/032_private_edited.json").read_bytes(),
    "what can't be read": b"{",
}


@pytest.mark.parametrize("body", WAITS.values(), ids=WAITS)
def test_an_event_is_acknowledged_only_when_it_is_in_the_replica(replicated, until, body):
    async def go():
        async with replicated() as (client, litestream):
            litestream.may_answer.clear()
            post = asyncio.create_task(client.post("/webhooks/telegram", **telegram(body)))
            await until(lambda: litestream.found)
            held = post.done()
            litestream.may_answer.set()
            return held, (await post).status_code

    assert asyncio.run(go()) == (False, 200)


def test_an_unreplicated_event_is_a_503_even_as_a_duplicate(replicated, conn):
    """The redelivery is not stored again, and not acknowledged earlier."""

    async def go():
        async with replicated() as (client, litestream):
            litestream.can = False
            answers = [await client.post("/webhooks/telegram", **telegram()) for _ in range(2)]
            litestream.can = True
            return [*answers, await client.post("/webhooks/telegram", **telegram())]

    answers = asyncio.run(go())
    assert [answer.status_code for answer in answers] == [503, 503, 200]
    assert [answer.headers.get("retry-after") for answer in answers] == ["5", "5", None]
    assert "not in the replica" in answers[0].json()["error"]
    assert column(conn, "SELECT count(*) FROM messages") == [1]


def test_concurrent_webhooks_share_one_commit_and_one_wait(replicated, until):
    """The first commits alone, at once. All that come while it waits share one commit and one question."""

    async def go():
        async with replicated() as (client, litestream):
            litestream.may_answer.clear()
            first = asyncio.create_task(client.post("/webhooks/telegram", **telegram()))
            await until(lambda: litestream.found)
            others = [
                asyncio.create_task(client.post("/webhooks/telegram", **telegram(numbered(n)))) for n in range(40)
            ]
            await until(lambda: column(litestream.conn, "SELECT count(*) FROM messages") == [41])
            litestream.may_answer.set()
            answers = await asyncio.gather(first, *others)
            return litestream.found, {answer.status_code for answer in answers}

    found, statuses = asyncio.run(go())
    assert statuses == {200}
    assert (found[0], found[-1]) == (1, 41)
    assert len(found) <= 3  # one; two if the news of the last commit came late


def test_events_without_a_row_and_local_channels_do_not_wait_for_the_replica(replicated, monkeypatch):
    monkeypatch.setenv("POSTROOM_DURABILITY", "replicated,telegram=local")

    async def go():
        async with replicated() as (client, litestream):
            ping = (EVENTS / "discord/001_ping.json").read_bytes()
            answers = [
                await client.post("/webhooks/discord", **discord(ping)),
                await client.post("/webhooks/telegram", content=PRIVATE),
                await client.post("/webhooks/telegram", **telegram()),
            ]
            return [answer.status_code for answer in answers], litestream.found

    assert asyncio.run(go()) == ([200, 401, 200], [])


def test_an_impossible_durability_is_refused_at_the_start(serving, monkeypatch):
    monkeypatch.setenv("POSTROOM_DURABILITY", "replicated")
    with pytest.raises(ConfigInvalid, match="POSTROOM_LITESTREAM_SOCKET"):
        post(serving, telegram())
