"""A response that removes an earlier one: in the order of its chat, and as often as it needs to."""

import httpx
import pytest

from shared.core.settings import Settings
from shared.db.engine.connection import transaction
from shared.queue import deliveries
from shared.queue.delivery_verdicts import DeliveryPolicy
from tests.functions.deliver.sending import step
from tests.functions.deliver.test_reactions import Bot, Reacting, gone, silent
from tests.support import NOW, answer, column

STATES = "SELECT status FROM responses ORDER BY id"


def remove(conn, said, **place):
    return answer(conn, "", content={"removes": said}, **place)


def test_a_line_is_removed_from_telegram_behind_the_answer(conn):
    line = answer(conn, "working …")
    answer(conn, "done")
    remove(conn, line)
    bot = Bot()
    step(bot, 3)
    assert bot.methods == ["sendMessage", "sendMessage", "deleteMessage"]
    assert column(conn, STATES) == ["acked"] * 3


def test_and_from_discord(conn):
    line = answer(conn, "working …", channel="discord", chat="300")
    remove(conn, line, channel="discord", chat="300")
    platform = step(Reacting(), 2)
    assert platform.calls == [("POST", "300/messages"), ("DELETE", "300/messages/9001")]


@pytest.mark.parametrize("script", [gone, silent], ids=["it is gone already", "no answer came the first time"])
def test_a_removal_is_repeated_and_needs_no_operator(conn, monkeypatch, script):
    monkeypatch.setenv("POSTROOM_UNKNOWN_SENDS", "hold")
    line = answer(conn, "working …", channel="discord", chat="300")
    step(Reacting())
    remove(conn, line, channel="discord", chat="300")
    step(Reacting(script), 2)
    assert column(conn, STATES) == ["acked"] * 2


def test_telegram_says_that_it_is_gone(conn):
    line = answer(conn, "working …")
    step(Bot())
    remove(conn, line)
    no = {"ok": False, "error_code": 400, "description": "Bad Request: message to delete not found"}
    step(Bot(httpx.Response(400, json=no)))
    assert column(conn, STATES) == ["acked"] * 2


def test_a_line_that_never_arrived_needs_no_call(conn):
    remove(conn, 4711)
    bot = Bot()
    step(bot)
    assert bot.methods == []
    assert column(conn, STATES) == ["acked"]


def test_after_a_kill_of_deliver_it_is_made_again_whatever_policy_says(conn, monkeypatch):
    monkeypatch.setenv("POSTROOM_UNKNOWN_SENDS", "hold")
    remove(conn, answer(conn, "working …"))
    step(Bot())
    with transaction(conn):
        claimed = deliveries.claim(conn, 2, token="t", now_ms=NOW, lease_ms=1000)
        assert claimed is not None
        deliveries.rescue(conn, "telegram", DeliveryPolicy.of(Settings.load()), now_ms=NOW, everything=True)
    assert column(conn, STATES) == ["acked", "pending"]
