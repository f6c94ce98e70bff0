"""Waits that platforms ask for, kept in rows for every process."""

import asyncio

import httpx
import pytest

from shared.channels import platform_api
from shared.channels.discord import limits as discord
from shared.channels.telegram import limits as telegram
from shared.core.errors import RateLimited
from shared.db.engine.connection import rows
from shared.db.platforms import call_holds
from shared.queue.platforms.pacing import PacedClient, RowPacing
from shared.queue.platforms.send_room import SendRoom
from tests.fake_client import FakeClient

NOW = 1_700_000_000_000
URL = "https://api.example/bot1:TOKEN/sendMessage"


class Process:
    """One process with a clock of its own, over the rows that all share."""

    def __init__(self, conn, *answers, at_ms=NOW, delivers=False):
        async def write(work):
            work(conn)

        self.at_ms = at_ms
        self.calls = 0
        self.answers = list(answers)
        self.room = SendRoom(lambda: self.at_ms) if delivers else None
        pacing = RowPacing(conn, write, lambda: self.at_ms, self.room)
        self.client = PacedClient(FakeClient(self.answer), pacing)

    def answer(self, _):
        self.calls += 1
        return self.answers.pop(0) if self.answers else httpx.Response(200, json={"ok": True})

    def call(self, scopes):
        return asyncio.run(platform_api.call(self.client, "A", "POST", URL, {}, {}, scopes=scopes))

    def wait_ms(self, scopes):
        with pytest.raises(RateLimited) as caught:
            self.call(scopes)
        return caught.value.retry_after_ms


def to_chat(number, account="telegram"):
    return telegram.scopes_of(account, "sendMessage", {"chat_id": number})


def flood(seconds):
    return httpx.Response(429, json={"ok": False, "parameters": {"retry_after": seconds}})


def test_a_429_holds_its_chat_for_its_time_in_every_process_and_no_other_chat(conn):
    Process(conn, flood(7)).call(to_chat(1))
    other = Process(conn, at_ms=NOW + 6_999)
    assert other.wait_ms(to_chat(1)) == 1
    assert other.calls == 0
    other.call(to_chat(2))
    other.call(to_chat(1, account="sales"))
    other.at_ms = NOW + 7_000
    other.call(to_chat(1))
    assert other.calls == 3


def test_typing_waits_for_the_chat_that_was_told_to_wait(conn):
    Process(conn, flood(7)).call(to_chat(1))
    typing = telegram.scopes_of("telegram", "sendChatAction", {"chat_id": "1"})
    assert Process(conn).wait_ms(typing) == 7_000


@pytest.mark.parametrize(("apart_ms", "holds_bot"), [(1_000, True), (1_001, False)])
def test_two_chats_within_a_second_hold_the_bot(conn, apart_ms, holds_bot):
    process = Process(conn, flood(5), flood(9))
    process.call(to_chat(1))
    process.at_ms += apart_ms
    process.call(to_chat(2))
    if holds_bot:
        assert process.wait_ms(to_chat(3)) == 9_000
    else:
        process.call(to_chat(3))
    process.call(to_chat(3, account="sales"))


def test_a_long_wait_of_one_chat_holds_that_chat_and_one_answer_asks_for_the_others(conn):
    process = Process(conn, flood(6_775), delivers=True)
    assert process.room.left("telegram") == 30
    process.call(to_chat(1))
    assert process.room.left("telegram") == 1
    process.room.reserve("telegram", "2")
    assert process.room.left("telegram") == 0
    process.at_ms += 5_000
    process.call(to_chat(2))
    assert process.room.left("telegram") > 20
    process.call(to_chat(3))
    assert process.wait_ms(to_chat(1)) == 6_770_000


def test_a_long_wait_holds_the_bot_where_the_next_chat_is_refused_too(conn):
    process = Process(conn, flood(6_775), flood(6_000), delivers=True)
    process.call(to_chat(1))
    process.at_ms += 5_000
    process.call(to_chat(2))
    assert Process(conn, at_ms=process.at_ms).wait_ms(to_chat(3)) == 6_000_000


def test_a_refusal_after_an_answer_got_through_is_of_its_chat(conn):
    process = Process(conn, flood(6_775), httpx.Response(200, json={"ok": True}), flood(6_000), delivers=True)
    for chat in (1, 2, 3):
        process.call(to_chat(chat))
        process.at_ms += 5_000
    process.call(to_chat(4))


def test_typing_says_nothing_about_the_limits_of_messages(conn):
    process = Process(conn, flood(6_775), delivers=True)
    process.call(to_chat(1))
    process.call(telegram.scopes_of("telegram", "sendChatAction", {"chat_id": "2"}))
    assert process.room.left("telegram") == 1


def to_channel(number, method="POST", path="/messages"):
    return discord.scopes_of("discord", method, f"https://discord.com/api/v10/channels/{number}{path}")


def told(status, payload=None, **headers):
    shown = {name.replace("_", "-"): value for name, value in headers.items()}
    if payload is None:
        return httpx.Response(status, text="<html>blocked</html>", headers=shown)
    return httpx.Response(status, json=payload, headers=shown)


def test_a_bucket_learnt_from_one_method_holds_the_others_of_it_in_that_channel_alone(conn):
    used_up = {"X_RateLimit_Bucket": "b1", "X_RateLimit_Remaining": "0", "X_RateLimit_Reset_After": "2"}
    learnt = {"X_RateLimit_Bucket": "b1", "X_RateLimit_Remaining": "3"}
    process = Process(conn, told(200, {}, **learnt), told(200, {}, **used_up))
    process.call(to_channel(1, "PATCH", "/messages/5"))
    process.call(to_channel(1))
    later = Process(conn)
    assert later.wait_ms(to_channel(1, "PATCH", "/messages/6")) == 2_000
    later.call(to_channel(2))
    later.call(to_channel(1, "PUT", "/messages/5/reactions/x/@me"))


def test_a_bucket_that_is_known_is_not_written_again(conn):
    process = Process(conn, *[told(200, {}, X_RateLimit_Bucket="b1", X_RateLimit_Remaining="3")] * 3)
    process.call(to_channel(1))
    before = conn.total_changes()
    process.call(to_channel(1))
    process.call(to_channel(2))
    assert conn.total_changes() == before


def test_the_global_limit_holds_the_application_and_not_the_answers_to_interactions(conn):
    process = Process(conn, told(429, {"retry_after": 3, "global": True}))
    process.call(to_channel(1))
    assert process.wait_ms(to_channel(2)) == 3_000
    url = "https://discord.com/api/v10/webhooks/11/token/messages/@original"
    process.call(discord.scopes_of("discord", "PATCH", url, is_token=True))


def test_a_block_by_cloudflare_holds_every_account_on_this_machine(conn):
    Process(conn, told(429, Retry_After="90")).call(to_channel(1))
    url = "https://discord.com/api/v10/channels/9/messages"
    process = Process(conn)
    assert process.wait_ms(discord.scopes_of("games", "POST", url)) == 90_000
    process.call(to_chat(1))


def test_refusals_of_all_accounts_count_together_and_stop_at_a_safe_number(conn):
    half = call_holds.SAFE_REFUSALS // 2
    games = discord.scopes_of("games", "POST", "https://discord.com/api/v10/channels/9/messages")
    first = Process(conn, *[told(403, {"code": 50001})] * half)
    second = Process(conn, *[told(401, {"code": 0})] * half, at_ms=NOW + 60_000)
    for _ in range(half):
        first.call(to_channel(1))
    for _ in range(half - 1):
        second.call(games)
    first.call(to_channel(1))
    second.call(games)
    minute = NOW - NOW % 60_000
    assert second.wait_ms(games) == minute + 600_000 - second.at_ms
    assert second.wait_ms(to_channel(1)) == second.wait_ms(games)
    first.at_ms = minute + 600_000
    first.call(to_channel(1))


def test_a_shared_limit_is_not_counted(conn):
    Process(conn, told(429, {"retry_after": 1}, X_RateLimit_Scope="shared")).call(to_channel(1))
    assert rows(conn, "SELECT * FROM refused_calls") == []


def test_a_database_that_cannot_be_written_loses_no_answer(conn):
    process = Process(conn, flood(7))
    rows(conn, "DROP TABLE call_holds")
    rows(conn, "CREATE TABLE call_holds (channel, scope, key, not_before, held_at, reason)")
    assert process.call(to_chat(1)).status == 429
