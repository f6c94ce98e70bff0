"""Responses are sent in order, in parts, and again after a failure."""

import asyncio
import json
import subprocess
import sys
import time

import pytest

from functions import deliver
from shared.channels import registry
from shared.db.engine.connection import rows, transaction
from tests.functions.deliver.sending import (
    LONG,
    Alive,
    Platform,
    discord_answer,
    hang,
    held,
    refuse,
    sent,
    service_of,
    silent,
    step,
    worked,
)
from tests.support import TICK, answer, column, put, row

TOKEN = "7100200300:AAExample"


def test_a_response_is_sent_and_acked(conn):
    answer(conn, "hello", chat="5000000001")
    platform = step(Platform())
    ((method, path, body),) = platform.requests
    assert (method, path, body["chat_id"]) == ("POST", f"/bot{TOKEN}/sendMessage", 5000000001)
    found = row(conn, "responses")
    assert (found["status"], found["platform_message_id"], found["parts"]) == ("acked", "9001", '["9001"]')


def test_chats_are_served_in_parallel_and_each_in_order(conn):
    for chat in ("1", "2", "1", "2"):
        answer(conn, f"to {chat}", chat=chat)
    platform = step(Platform(), 2)
    assert sorted(platform.texts[:2]) == ["to 1", "to 2"]
    assert column(conn, "SELECT status FROM responses") == ["acked"] * 4


def test_a_long_response_is_sent_in_parts_in_order(conn):
    answer(conn, LONG)
    parts = registry.get("telegram").render(LONG)
    assert len(parts) == 2
    platform = step(Platform())
    assert len(platform.requests) == 2
    assert json.loads(row(conn, "responses")["parts"]) == ["9001", "9002"]


def test_a_crash_between_two_parts_does_not_send_the_first_again(conn):
    answer(conn, LONG)
    first = Platform(sent, hang)

    async def crash():
        service = service_of(first)
        await service.claim_and_start()
        while len(first.requests) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await service.close()  # the job is cancelled; the row says which part was being sent

    asyncio.run(crash())
    found = row(conn, "responses")
    assert (found["status"], found["parts"], found["part_started"]) == ("delivering", '["9001"]', 1)
    second = Platform()

    async def resume():
        service = service_of(second)
        await service.repair()
        await asyncio.sleep(0.003)
        await worked(service)
        await service.close()

    asyncio.run(resume())
    assert second.texts == first.texts[1:]
    found = row(conn, "responses")
    assert (found["status"], found["retry_count"], json.loads(found["parts"])) == ("acked", 1, ["9001", "9001"])


KILLED = """
import asyncio
from functions.deliver import Deliver
from shared.core.settings import Settings
from tests.fake_client import FakeClient

async def platform(request):
    print("asked", flush=True)
    await asyncio.sleep(300)

async def main():
    service = Deliver(Settings.load(), FakeClient(platform))
    service.worker.begin()
    await asyncio.sleep(300)

asyncio.run(main())
"""
UNKNOWN = {"resend": ("acked", 1), "hold": ("dead", 0)}


@pytest.mark.parametrize(("policy", "expected"), UNKNOWN.items())
def test_policy_decides_about_the_send_of_a_killed_process(conn, monkeypatch, policy, expected):
    monkeypatch.setenv("POSTROOM_UNKNOWN_SENDS", policy)
    answer(conn, "hello")
    with subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True) as process:
        lines = iter(process.stdout.readline, "")
        assert "asked\n" in lines
        process.kill()
    platform = Platform()

    async def go():
        service = service_of(platform)
        await service.repair()
        await asyncio.sleep(0.003)
        await worked(service)
        await service.close()

    asyncio.run(go())
    found = row(conn, "responses")
    assert (found["status"], len(platform.requests)) == expected
    assert column(conn, "SELECT data ->> 'part' FROM events WHERE type = 'response_outcome_unknown'") == [0]


def test_a_429_holds_the_chat_and_no_other_and_costs_no_attempt(conn):
    answer(conn, "one", chat="1")
    answer(conn, "two", chat="1")
    answer(conn, "other", chat="2")
    before_ms = int(time.time() * 1000)
    platform = step(Platform(refuse(429, parameters={"retry_after": 60}), sent), 3)
    assert sorted(platform.texts) == ["one", "other"]
    found = row(conn, "responses", 1)
    assert (found["status"], found["retry_count"], found["part_started"]) == ("pending", 0, None)
    assert before_ms + 60_000 <= row(conn, "chats", 1)["not_before"] <= time.time() * 1000 + 60_000
    held(conn)
    assert step(Platform(), 2).texts == ["one", "two"]


def test_a_permanent_error_makes_a_response_dead_and_frees_its_chat(conn):
    answer(conn, "one")
    answer(conn, "two")
    step(Platform(refuse(400, description="Bad Request: not enough rights to send text messages"), sent), 2)
    assert column(conn, "SELECT status FROM responses ORDER BY id") == ["dead", "acked"]
    assert "not enough rights" in row(conn, "responses", 1)["last_error"]


def test_nothing_more_is_sent_to_a_chat_that_is_gone(conn):
    answer(conn, "one")
    answer(conn, "two")
    platform = step(Platform(refuse(403, description="Forbidden: bot was blocked by the user"), sent), 2)
    assert platform.texts == ["one"]
    assert column(conn, "SELECT status FROM responses ORDER BY id") == ["dead", "dead"]
    assert "blocked" in row(conn, "responses", 1)["last_error"]
    assert column(conn, "SELECT status FROM chats") == ["inactive"]


def test_a_group_that_became_a_supergroup_is_answered_there(conn):
    """The platform tells the new id with the send that it refuses."""
    answer(conn, "one")
    answer(conn, "two")
    moved = refuse(400, description="Bad Request: group chat was upgraded", parameters={"migrate_to_chat_id": -1005})
    platform = step(Platform(moved, sent), 3)
    assert platform.texts == ["one", "one", "two"]
    assert [body["chat_id"] for _, _, body in platform.requests][1:] == [-1005, -1005]
    assert column(conn, "SELECT status FROM responses ORDER BY id") == ["acked", "acked"]


def test_a_failing_head_is_retried_before_the_responses_behind_it(conn, monkeypatch):
    monkeypatch.setenv("POSTROOM_RETRY_CAP_MS", "2")
    answer(conn, "one")
    answer(conn, "two")
    platform = step(Alive(silent, sent), 3)
    assert platform.texts == ["one", "one", "two"]
    assert row(conn, "responses", 1)["retry_count"] == 1


def test_a_response_is_dead_after_five_attempts(conn, monkeypatch):
    monkeypatch.setenv("POSTROOM_RETRY_CAP_MS", "2")
    answer(conn, "one", channel="discord")
    platform = step(Alive(silent), 8)
    assert len(platform.requests) == 5
    found = row(conn, "responses")
    assert (found["status"], found["retry_count"]) == ("dead", 5)


def test_a_person_gets_two_copies_at_most_where_nothing_shows_what_arrived(conn, monkeypatch):
    """Telegram accepts the message, and its answer gets lost each time."""
    monkeypatch.setenv("POSTROOM_RETRY_CAP_MS", "2")
    answer(conn, "one")
    answer(conn, "two")
    platform = step(Alive(silent, silent, sent), 8)
    assert platform.texts == ["one", "one", "two"]
    found = row(conn, "responses", 1)
    assert (found["status"], found["failure"], found["part_started"]) == ("dead", "outcome_unknown", 0)
    assert "it was sent 2 times without an answer" in found["last_error"]
    assert TOKEN not in found["last_error"]


SILENT = {"resend": (["one", "one"], "acked"), "hold": (["one"], "dead")}


@pytest.mark.parametrize(("policy", "expected"), SILENT.items())
def test_a_send_without_an_answer_is_unknown_and_policy_decides(conn, monkeypatch, policy, expected):
    monkeypatch.setenv("POSTROOM_UNKNOWN_SENDS", policy)
    answer(conn, "one")
    platform = step(Alive(silent, sent), 2)
    assert (platform.texts, row(conn, "responses")["status"]) == expected
    assert column(conn, "SELECT type FROM events WHERE type = 'response_outcome_unknown'") != []


def test_a_send_ends_before_its_lease_does(conn, monkeypatch):
    """A rescued response must not be sent beside its first send."""
    monkeypatch.setenv("POSTROOM_LEASE_MS", "1000")
    monkeypatch.setenv("POSTROOM_UNKNOWN_SENDS", "hold")
    answer(conn)
    step(Platform(hang))
    found = row(conn, "responses")
    assert (found["status"], found["last_error"]) == ("dead", "the platform did not answer within 0.6 s")


def test_an_ack_waits_for_the_database_and_nothing_is_sent_again(conn):
    """A sent response must not go dead because the disk was full for a moment."""
    answer(conn)

    def full(number):
        rows(conn, "CREATE TRIGGER full BEFORE UPDATE ON responses BEGIN SELECT raise(ABORT, 'full'); END")
        return sent(number)

    platform = Platform(full)

    async def go():
        service = service_of(platform)
        await service.claim_and_start()
        while not platform.requests:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)
        rows(conn, "DROP TRIGGER full")
        while service.worker.running:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        await service.close()

    asyncio.run(go())
    assert (row(conn, "responses")["status"], len(platform.requests)) == ("acked", 1)


def test_a_response_without_content_is_dead_with_its_reason(conn):
    answer(conn, "  \n ")
    step(Platform())
    assert row(conn, "responses")["last_error"] == "the response has nothing that the platform can show"


def test_a_response_sent_in_more_parts_than_it_has_now_is_acked(conn):
    """A release between the crash and the next attempt may change the limit of a part."""
    answer(conn, "short")
    with transaction(conn):
        rows(conn, 'UPDATE responses SET parts = \'["1", "2"]\'')
    platform = step(Platform())
    assert (row(conn, "responses")["status"], platform.requests) == ("acked", [])


def test_a_bug_in_a_channel_makes_a_response_dead_with_the_error_type_only(conn):
    answer(conn, "one", chat="not a number")
    put(conn)

    def broken(_):
        raise ZeroDivisionError("a person's text")

    step(Platform(broken))
    assert (
        row(conn, "responses")["last_error"] == "the channel failed (ZeroDivisionError); the log of deliver says where"
    )


def test_the_first_answer_to_a_command_replaces_the_deferral(conn):
    discord_answer(conn, "one")
    discord_answer(conn, "two")
    platform = step(Platform(), 2)
    webhook = "/api/v10/webhooks/1290000000000000001/interaction-token"
    assert [(method, path) for method, path, _ in platform.requests] == [
        ("PATCH", f"{webhook}/messages/@original"),
        ("POST", webhook),
    ]
    assert platform.texts == ["one", "two"]
    assert all(body["allowed_mentions"]["parse"] == [] for _, _, body in platform.requests)


def test_failing_chats_take_no_room_from_others(conn, monkeypatch):
    monkeypatch.setenv("POSTROOM_MAX_CONCURRENT_SENDS", "2")
    monkeypatch.setenv("POSTROOM_RETRY_BASE_MS", "60000")
    for chat in "123":
        answer(conn, f"to {chat}", chat=chat)
    platform = step(Platform(refuse(409), refuse(409), sent), 2)
    assert sorted(platform.texts) == ["to 1", "to 2", "to 3"]
    assert column(conn, "SELECT status FROM responses ORDER BY id") == ["pending", "pending", "acked"]


def test_a_tick_finds_work_without_a_kick(serving, conn, until, monkeypatch):
    monkeypatch.setenv("POSTROOM_RETRY_BASE_MS", "60000")

    async def go():
        async with serving(deliver) as client:
            await until(lambda: deliver._service.get().worker._lock.is_held)
            answer(conn)
            answers = [await client.post("/tick"), await client.post("/tick", headers=TICK)]
            await until(lambda: row(conn, "responses")["unsent_since"])  # nothing listens at TELEGRAM_API_BASE
            return answers

    assert [each.status_code for each in asyncio.run(go())] == [401, 202]


def test_many_waiting_chats_are_answered_oldest_first(conn, monkeypatch):
    monkeypatch.setenv("POSTROOM_MAX_CONCURRENT_SENDS", "2")
    for chat in range(1, 31):
        answer(conn, f"to {chat}", chat=str(chat))
    platform = step(Platform(), 30)
    assert platform.texts == [f"to {chat}" for chat in range(1, 31)]
