"""Parts that a platform finds too long go out in smaller pieces; nothing is lost, and nothing is sent twice."""

import asyncio
import json

import httpx
import pytest

from shared.channels import registry
from tests.functions.deliver.sending import LONG, Platform, hang, sent, service_of, step, worked
from tests.support import answer, column, row

TEXT = "\n\n".join(f"Paragraph {number}: " + "word " * 60 for number in range(10))


class Short(Platform):
    """A Telegram that holds *limit* characters in a message, and never the text *refused*."""

    def __init__(self, limit, *script, refused=None):
        super().__init__(*script)
        self.limit = limit
        self.refused = refused
        self.shown = []

    async def __call__(self, request):
        text = json.loads(request.content)["text"]
        if len(text) > self.limit or text == self.refused:
            self.requests.append((request.method, request.url.path, json.loads(request.content)))
            return httpx.Response(400, json={"ok": False, "description": "Bad Request: message is too long"})
        answered = await super().__call__(request)
        self.shown.append(text)
        return answered


def words(texts):
    return " ".join(texts).split()


@pytest.mark.parametrize("limit", [2000, 900, 450])
def test_a_part_that_is_too_long_arrives_in_pieces(conn, monkeypatch, limit):
    monkeypatch.setenv("POSTROOM_PACE_SENDS", "false")
    answer(conn, TEXT)
    platform = step(Short(limit))
    assert words(platform.shown) == TEXT.split()
    found = row(conn, "responses")
    assert (found["status"], found["retry_count"]) == ("acked", 0)
    assert len(json.loads(found["parts"])) == len(platform.shown) > 1


def test_buttons_stand_under_the_last_piece(conn):
    answer(conn, TEXT, content={"buttons": [["Approve", "7.0"]]})
    platform = step(Short(2000))
    marked = ["reply_markup" in body for _, _, body in platform.requests if len(body["text"]) <= 2000]
    assert marked == [False] * (len(marked) - 1) + [True]


def test_after_a_crash_only_the_pieces_that_were_not_sent_are_sent(conn):
    answer(conn, TEXT)
    first = Short(2000, sent, hang)

    async def crash():
        service = service_of(first)
        await service.claim_and_start()
        while len([each for each in first.requests if len(each[2]["text"]) <= 2000]) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await service.close()

    asyncio.run(crash())
    assert (row(conn, "responses")["cuts"], row(conn, "responses")["parts"]) == ("[0]", '["9002"]')
    second = Short(2000)

    async def resume():
        service = service_of(second)
        await service.repair()
        await asyncio.sleep(0.003)
        await worked(service)
        await service.close()

    asyncio.run(resume())
    assert words([*first.shown, *second.shown]) == TEXT.split()
    assert all(len(each[2]["text"]) <= 2000 for each in second.requests), "the row knows the cut"


def test_a_refusal_of_a_later_part_leaves_the_sent_ones(conn):
    first, second = registry.get("telegram").render(LONG)
    answer(conn, LONG)
    platform = step(Short(4096, refused=second.html))
    assert platform.shown[0] == first.html
    assert len(platform.shown) > 2
    assert words(platform.shown) == LONG.split()


def test_a_short_part_that_is_called_too_long_is_dead_with_that_reason(conn):
    answer(conn, "hello")
    platform = step(Short(3))
    assert len(platform.requests) == 1
    assert column(conn, "SELECT status FROM responses") == ["dead"]
    assert "message is too long" in row(conn, "responses")["last_error"]
