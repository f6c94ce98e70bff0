"""Deleted and retired chats; agents are in ``test_agents_and_teams``, and pending approvals in ``test_decisions``."""

import pytest

from shared.conversation.access import people
from shared.core.errors import NotFound, WrongState
from shared.db.access import approvals, user_dms
from shared.db.engine.connection import rows, transaction
from shared.db.roster import chats, destinations, wirings
from shared.rest.admin import retire
from tests.approval_requests import ask_chat, ask_sender, event, person
from tests.support import NOW, answer, column, dump, make_chat, make_session, plan, put, wire

LATER = NOW + 5


def delete_chat(conn, chat):
    with transaction(conn):
        return retire.delete_chat(conn, chat, now_ms=LATER)


def test_an_unused_chat_is_deleted(conn):
    before = dump(conn)
    chat = make_chat(conn)
    wire(conn, chat)
    with transaction(conn):
        destinations.put(conn, "assistant", chat=chat, now_ms=NOW)
    assert delete_chat(conn, chat) == "deleted"
    assert dump(conn) == before


SAID = {
    "a session": lambda conn, chat: make_session(conn),
    "a response without an agent": lambda conn, chat: rows(
        conn, "UPDATE responses SET status = 'acked', acked_at = 1 WHERE id = :id", {"id": answer(conn)}
    ),
    "a message of the agent's own session": lambda conn, chat: (
        put(conn),
        rows(conn, "UPDATE messages SET status = 'completed'"),
        rows(conn, "UPDATE sessions SET chat_id = NULL"),
    ),
}


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_a_used_chat_is_retired(conn, said):
    chat = make_chat(conn)
    wire(conn, chat)
    admin = person(conn, "1", "admin")
    with transaction(conn):
        user_dms.put(conn, admin.id, chat, NOW)
    said(conn, chat)
    assert delete_chat(conn, chat) == "retired"
    found = chats.get(conn, chat)
    assert (found.status, found.refused_at) == ("inactive", LATER)
    assert wirings.of_chat(conn, chat) == destinations.of_agent(conn, "assistant") == []
    assert user_dms.get(conn, admin.id) is None


@pytest.mark.parametrize("is_seen", [True, False], ids=["seen there", "never seen"])
def test_the_chat_of_the_last_owner_stays_until_there_is_another_owner(conn, is_seen):
    """Otherwise no card would reach anybody, and nothing would say so."""
    owner, chat = person(conn, "100", "owner"), make_chat(conn, "100")
    put(conn)
    rows(conn, "UPDATE messages SET status = 'completed'")
    if is_seen:
        with transaction(conn):
            user_dms.put(conn, owner.id, chat, NOW)
    before = dump(conn)
    with pytest.raises(WrongState, match=f"chat {chat} is where the last owner, user {owner.id}, is asked:"):
        delete_chat(conn, chat)
    assert dump(conn) == before
    person(conn, "6", "owner")
    assert delete_chat(conn, chat) == "retired"


def test_an_unused_chat_of_the_last_owner_is_created_again(conn):
    owner, chat = person(conn, "100", "owner"), make_chat(conn, "100")
    with transaction(conn):
        user_dms.put(conn, owner.id, chat, NOW)
    assert delete_chat(conn, chat) == "deleted"
    with transaction(conn):
        again = people.direct_chat(conn, owner, now_ms=NOW)
    assert chats.get(conn, again).status == "active"


def test_a_chat_in_a_large_database_is_retired_without_a_scan(conn, monkeypatch):
    monkeypatch.setattr(chats, "_MOST_LOOKED_AT", 0)
    for other in ("200", "300"):
        put(conn, chat=other)
    assert delete_chat(conn, make_chat(conn)) == "retired"


WAITS = {
    "a message": lambda conn: put(conn),
    "a paused one": lambda conn: (put(conn), rows(conn, "UPDATE messages SET status = 'paused'")),
    "a response": lambda conn: answer(conn),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_chat_with_open_rows_stays(conn, wait):
    chat = make_chat(conn)
    wait(conn)
    before = dump(conn)
    with pytest.raises(WrongState, match=f"1 message or response waits in chat {chat}"):
        delete_chat(conn, chat)
    assert dump(conn) == before


def test_an_unknown_chat_can_not_be_deleted(conn):
    with pytest.raises(NotFound, match="no chat 7"):
        delete_chat(conn, 7)


def test_the_pending_approvals_about_a_deleted_chat_end_with_it(conn):
    person(conn, "1", "owner")
    chat = make_chat(conn, "100", is_group=True)
    wire(conn, chat)
    wire(conn, make_chat(conn, "200", is_group=True))
    sender = ask_sender(conn, event()).approval
    other = ask_sender(conn, event("2", "6", chat="200")).approval
    new = ask_chat(conn, event("3", chat="-7", is_group=True)).approval
    for each in (chat, new.chat_id):
        assert delete_chat(conn, each) == "deleted"
    ended = [approvals.get(conn, each.approval_id) for each in (sender, new, other)]
    assert [(each.status, each.payload.get("withdrawn")) for each in ended] == [
        ("expired", f"chat {chat} was deleted"),
        ("expired", f"chat {new.chat_id} was deleted"),
        ("pending", None),
    ]
    assert rows(conn, "SELECT reason, event_key FROM dropped") == [("not_wired", "1"), ("not_wired", "3")]
    assert column(conn, "SELECT event_key FROM held") == ["2"]


def test_the_open_rows_of_a_chat_are_counted_by_indexes(conn):
    found = [line for line in plan(conn, chats.COUNT_OPEN, chat=1) if "messages" in line or "responses" in line]
    assert [line.partition("USING ")[2].split("(")[0].strip() for line in found] == [
        *("INDEX messages_open", "INDEX messages_resting", "COVERING INDEX responses_open", "INDEX responses_planned")
    ]
