"""Discord's interactions: what is promised at once, and what is stored."""

import json

import pytest

from shared.conversation.access import people
from shared.db.access import users
from shared.db.engine.connection import transaction
from shared.db.roster import chats
from shared.roster import wirings
from tests.functions.ingest.kit import DM, EVENTS, ask, discord, post
from tests.support import NOW, column, dump, row


def test_discords_ping_is_answered_and_stores_nothing(serving, conn):
    before = dump(conn)
    body = (EVENTS / "discord/001_ping.json").read_bytes()
    (answer,) = post(serving, {"url": "/webhooks/discord", **discord(body)})
    assert (answer.status_code, answer.json()) == (200, {"type": 1})
    assert dump(conn) == before


def test_a_slash_command_is_deferred_and_stored_without_its_token(serving, conn):
    body = json.loads((EVENTS / "discord/011_slash_dm.json").read_text())
    (answer,) = post(serving, ask())
    assert answer.json() == {"type": 5}
    assert row(conn, "messages")["channel"] == "discord"
    assert column(conn, "SELECT content ->> '$.own_answer' FROM messages") == [1]
    assert body["token"] not in str(dump(conn))


def test_a_command_that_the_bot_does_not_know_asks_no_agent(serving, conn):
    """The person is told at once, and must not get a second answer."""
    (answer,) = post(serving, ask("027_slash_unknown_command.json"))
    assert answer.json()["type"] == 4
    assert column(conn, "SELECT id FROM messages") == []
    assert column(conn, "SELECT reason FROM dropped") == ["unsupported"]


def test_no_deferral_is_promised_where_no_agent_answers(serving, conn, monkeypatch):
    monkeypatch.setenv("POSTROOM_NEW_CHATS", "refuse")
    (answer,) = post(serving, ask())
    assert answer.json()["type"] == 4
    assert column(conn, "SELECT reason FROM dropped") == ["not_wired"]


@pytest.fixture
def discord_chat(conn):
    """The direct chat of the recorded command, with an agent that answers and an owner."""

    def make(sender_policy):
        with transaction(conn):
            owner = users.ensure(conn, "discord", "9", name="Olga", now_ms=NOW)
            people.grant(conn, owner.id, "owner", None, by="test", now_ms=NOW)
            chat = chats.ensure(conn, "discord", DM, is_group=False, sender_policy=sender_policy, now_ms=NOW)
            wirings.connect(conn, chat.id, "assistant", now_ms=NOW)

    return make


def test_a_deferral_is_kept_where_an_approver_is_asked_first(serving, conn, discord_chat):
    """Our notice replaces the deferral, and the agent's answer replaces our notice."""
    discord_chat("request_approval")
    (answer,) = post(serving, ask())
    assert answer.json() == {"type": 5}
    waiting = (
        "SELECT message FROM responses WHERE platform_id = :dm AND content ->> '$.context.sealed_token' IS NOT NULL"
    )
    assert ["waits for the decision" in text for text in column(conn, waiting, dm=DM)] == [True]
    assert column(conn, "SELECT id FROM messages") == []


def test_a_refused_sender_is_told_at_once(serving, conn, discord_chat):
    discord_chat("strict")
    (answer,) = post(serving, ask())
    assert answer.json()["type"] == 4
    assert "may not" in answer.json()["data"]["content"]
    assert column(conn, "SELECT reason FROM dropped") == ["sender_unknown"]
    assert column(conn, "SELECT id FROM responses") == []


def test_a_rate_limited_sender_is_told_in_place_of_the_answer(serving, discord_chat, monkeypatch):
    monkeypatch.setenv("POSTROOM_SENDER_LIMIT", "1")
    discord_chat("public")
    bodies = [json.loads((EVENTS / "discord/011_slash_dm.json").read_text()) | {"id": str(n)} for n in range(3)]
    calls = [{"url": "/webhooks/discord", **discord(json.dumps(body).encode())} for body in bodies]
    types = [answer.json()["type"] for call in calls for answer in post(serving, call)]
    assert types == [5, 5, 4]


def test_a_captured_request_is_refused_later(serving, conn):
    body = (EVENTS / "discord/011_slash_dm.json").read_bytes()
    (answer,) = post(serving, {"url": "/webhooks/discord", **discord(body, at=1_795_168_000)})
    assert answer.status_code == 401
    assert column(conn, "SELECT id FROM messages") == []
