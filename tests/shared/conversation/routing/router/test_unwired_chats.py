"""A chat without a wiring."""

from dataclasses import replace

import pytest

from shared.conversation.routing.apply import Routed
from shared.db.engine.connection import rows, transaction
from shared.db.roster import agents, chats
from tests.shared.conversation.routing.router.kit import (
    ASK,
    SECRET,
    WIRE,
    become,
    event,
    make_chat,
    reasons,
    said,
    store,
)
from tests.support import NOW, column, dump, row

NEW = {
    "a person": (event(platform_id="7"), "mention", "shared", "Ana"),
    "a group that addresses the bot": (
        event(platform_id="7", is_group=True, thread_id="3"), "mention-sticky", "per-thread", None,
    ),
    "a group with a name": (
        event(platform_id="7", is_group=True, chat_name="Lunch"), "mention-sticky", "per-thread", "Lunch",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("what", "engage", "session", "name"), NEW.values(), ids=NEW)
@pytest.mark.parametrize("is_known", [False, True], ids=["unknown chat", "known chat without wirings"])
def test_a_new_chat_is_wired_to_the_default_agent_where_the_operator_allows_it(
    conn, what, engage, session, name, is_known
):
    if is_known:
        make_chat(conn, "7", is_group=what.is_group)
    assert store(conn, what, WIRE).stored == 1
    assert rows(conn, "SELECT agent, engage_mode, session_mode FROM wirings") == [("assistant", engage, session)]
    assert row(conn, "chats")["sender_policy"] == "public"
    if not is_known:
        assert row(conn, "chats")["name"] == name
    assert store(conn, what, WIRE).duplicates == 1


def test_a_strict_chat_stays_strict_when_it_is_wired_automatically(conn):
    make_chat(conn, "7", "strict")
    assert store(conn, event(platform_id="7"), WIRE).dropped == "sender_unknown"


def test_an_unwired_strict_chat_holds_nothing_of_strangers_and_asks_no_approver(conn):
    become(conn, "owner", "9")
    make_chat(conn, "7", "strict", is_group=True)
    said_there = event(platform_id="7", is_group=True)
    assert store(conn, said_there, ASK) == Routed(dropped="sender_unknown")
    assert SECRET not in str(dump(conn))
    become(conn, "member")
    assert store(conn, replace(said_there, event_key="2"), ASK).held == 1


@pytest.mark.parametrize("policy", [WIRE, ASK], ids=["wire", "ask"])
def test_a_group_message_without_a_mention_neither_wires_the_group_nor_asks_about_it(conn, policy):
    become(conn, "owner", "9")
    assert store(conn, event(platform_id="7", is_group=True, is_mention=False), policy).dropped == "not_wired"
    assert chats.find(conn, "telegram", "7") is None
    assert said(conn) == []


def test_without_a_default_agent_nothing_is_wired(conn):
    with transaction(conn):
        rows(conn, "UPDATE agents SET is_default = 0")
    assert agents.default(conn) is None
    assert store(conn, event(platform_id="7"), WIRE).dropped == "not_wired"


def test_an_owner_is_asked_about_a_new_chat_and_the_message_waits(conn):
    become(conn, "owner", "9")
    assert store(conn, event(platform_id="7"), ASK) == Routed(held=1, said=True)
    assert chats.find(conn, "telegram", "7").sender_policy == "request_approval"
    assert column(conn, "SELECT count(*) FROM held") == [1]
    assert column(conn, "SELECT id FROM messages") == []
    assert reasons(conn) == []
    assert column(conn, "SELECT platform_id FROM responses ORDER BY id") == ["9", "7"]


def test_a_new_chat_leaves_no_row_where_no_approver_can_be_asked(conn):
    assert store(conn, event(platform_id="7"), ASK).dropped == "not_wired"
    assert chats.find(conn, "telegram", "7") is None
    assert reasons(conn) == [("not_wired", "")]
    assert SECRET not in str(dump(conn))


def test_the_sender_is_told_once_that_the_message_waits(conn):
    become(conn, "owner", "9")
    for key, at, is_said in (("1", NOW, True), ("1", NOW, False), ("2", NOW, False), ("3", NOW + 2, False)):
        assert store(conn, event(platform_id="7", event_key=key), ASK, at=at) == Routed(held=1, said=is_said)
    assert column(conn, "SELECT count(*) FROM responses WHERE platform_id = '7'") == [1]
    assert column(conn, "SELECT count(*) FROM held") == [3]


def test_a_command_is_told_each_time_that_it_waits(conn):
    become(conn, "owner", "9", "discord")
    for key in ("1", "2"):
        what = event(platform_id="7", kind="command", command="ask", event_key=key, context={"token": key})
        assert store(conn, what, ASK, channel="discord", at=NOW + int(key)).said
    waiting = "SELECT content ->> '$.context.token' FROM responses WHERE platform_id = '7' ORDER BY id"
    assert column(conn, waiting) == ["1", "2"]
