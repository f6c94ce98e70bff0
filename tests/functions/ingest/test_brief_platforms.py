"""Discord waits for three seconds and never repeats: it is answered in time, and what is not stored by then is not."""

import asyncio
import json

import pytest

from functions import ingest
from shared.conversation.access import people
from shared.conversation.inbound import withdrawals
from shared.db.access import users
from shared.db.engine.connection import rows, transaction
from shared.db.roster import chats
from shared.roster import wirings
from tests.functions.ingest.kit import DM, EVENTS, ask, discord, post
from tests.support import NOW, column, dump, make_agent

SENDER = "80000000000000001"


def told(answer):
    return answer.status_code, answer.json()["type"], answer.json()["data"]["flags"], answer.json()["data"]["content"]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("011_slash_dm.json", "nothing was done with it. Please send it again"),
        ("040_button.json", "if nothing changes there, do it again"),  # pressed late, a button may still have decided
        ("050_modal_label.json", "nothing was done with it. Please send it again"),
    ],
)
def test_while_another_writer_holds_the_database_the_person_is_told_and_no_row_is_left(
    serving, conn, monkeypatch, name, advice
):
    monkeypatch.setattr(ingest, "_BRIEF_LIMIT_S", 0.05)
    before = dump(conn)

    async def go():
        async with serving(ingest) as client:
            rows(conn, "BEGIN IMMEDIATE")
            answer = await client.post(**ask(name))
            rows(conn, "ROLLBACK")
            return answer  # the client's end is the function's: it finishes what its writer has begun

    status, type_, flags, text = told(asyncio.run(go()))
    assert (status, type_, flags) == (200, 4, 64)
    assert advice in text
    assert dump(conn) == before


def test_what_the_replica_does_not_confirm_in_time_is_withdrawn(replicated, until, conn, monkeypatch):
    monkeypatch.setattr(ingest, "_BRIEF_LIMIT_S", 1.0)  # for the commit alone, which takes milliseconds
    monkeypatch.setattr(ingest, "_BRIEF_ANSWER_S", 1.0)

    async def go():
        async with replicated() as (client, litestream):
            litestream.may_answer.clear()
            answer = await client.post(**ask())
            litestream.may_answer.set()
            return answer

    assert told(asyncio.run(go()))[:3] == (200, 4, 64)
    assert rows(conn, "SELECT status, last_error FROM messages") == [("cancelled", withdrawals.REASON)]


def test_a_quick_commit_is_answered_as_ever(serving, conn):
    (answer,) = post(serving, ask())
    assert answer.json() == {"type": 5}
    assert column(conn, "SELECT status FROM messages") == ["pending"]


def typing(value, option="agent"):
    """The half-typed option of /ask, in a direct chat."""
    body = json.loads((EVENTS / "discord/201_autocomplete_second_option.json").read_bytes())
    body["channel_id"] = body["channel"]["id"] = DM
    body["data"]["options"] = [{"name": option, "type": 3, "value": value, "focused": True}]
    return {"url": "/webhooks/discord", **discord(json.dumps(body).encode())}


@pytest.fixture
def three_agents(conn):
    for each in ("coder", "writer", "secret"):
        make_agent(conn, each)
    with transaction(conn):
        owner = users.ensure(conn, "discord", "9", name="Olga", now_ms=NOW)
        people.grant(conn, owner.id, "owner", None, by="test", now_ms=NOW)
        chat = chats.ensure(conn, "discord", DM, is_group=False, sender_policy="strict", now_ms=NOW)
        sender = users.ensure(conn, "discord", SENDER, name="Ana", now_ms=NOW)
        for each in ("coder", "writer", "secret"):
            wirings.connect(conn, chat.id, each, now_ms=NOW)
        for each in ("coder", "writer"):
            people.add_member(conn, sender.id, each, by="test", now_ms=NOW)


@pytest.mark.parametrize(
    ("value", "found"), [("", ["coder", "writer"]), ("WRI", ["writer"]), ("@co", ["coder"]), ("secret", []), ("%", [])]
)
def test_only_agents_that_the_person_may_ask_here_are_suggested(serving, conn, three_agents, value, found):
    before = dump(conn)
    (answer,) = post(serving, typing(value))
    assert answer.json()["type"] == 8
    assert [each["value"] for each in answer.json()["data"]["choices"]] == found
    assert dump(conn) == before


@pytest.mark.parametrize(  # signed when it is sent: a signature lasts for five minutes
    "call", [lambda: typing("c", option="prompt"), lambda: ask("200_autocomplete_number.json")]
)
def test_another_option_or_an_unknown_chat_has_no_suggestions(serving, conn, call):
    before = dump(conn)
    (answer,) = post(serving, call())
    assert answer.json() == {"type": 8, "data": {"choices": []}}
    assert dump(conn) == before


def test_a_form_that_opens_leaves_no_row(serving, conn):
    before = dump(conn)
    (answer,) = post(serving, ask("032_user_command.json"))
    assert answer.json()["type"] == 9
    assert dump(conn) == before


def test_a_sent_form_asks_the_agent_once(serving, conn, monkeypatch):
    monkeypatch.setenv("POSTROOM_NEW_CHATS", "wire")
    answers = post(serving, ask("050_modal_label.json"), ask("050_modal_label.json"))
    assert [answer.json() for answer in answers] == [{"type": 5}, {"type": 5}]
    assert column(conn, "SELECT message FROM messages") == ["please use blue\nand green"]
    assert column(conn, "SELECT content ->> '$.own_answer' FROM messages") == [1]
