"""Whose words a turn reads."""

import pytest

from shared.conversation.access import people
from shared.db.access import users
from shared.db.engine.connection import transaction
from shared.db.queue import mailbox as rows_of_mailbox
from shared.db.queue import sessions
from shared.db.roster import teams
from shared.db.roster.teams import Team
from shared.queue.teamwork import mailbox, rooms
from shared.turns.tools import company
from tests.support import NOW, make_agent, make_owner, put


def message(conn, **fields):
    fields = {"platform_message_id": "m1", **fields}
    return rows_of_mailbox.get(conn, put(conn, **fields)).message


def is_stranger(conn, **fields):
    return company.is_of_stranger(conn, message(conn, **fields))


def let_in(conn, sender="5", agent="assistant"):
    with transaction(conn):
        user = users.ensure(conn, "telegram", sender, name="Ana", now_ms=NOW)
        people.add_member(conn, user.id, agent, by="a test", now_ms=NOW)


def test_a_person_with_a_membership_or_a_role_is_known_and_another_is_a_stranger(conn):
    make_owner(conn, "1")
    let_in(conn, "5")
    make_agent(conn, "bob")
    let_in(conn, "6", "bob")
    assert not is_stranger(conn, sender_id="1")
    assert not is_stranger(conn, sender_id="5")
    assert is_stranger(conn, sender_id="6")
    assert is_stranger(conn, sender_id="7")


def test_a_person_whom_the_platform_hides_is_a_stranger_and_an_operator_is_not(conn):
    assert is_stranger(conn, sender_id=None)
    assert not is_stranger(conn, sender_id=None, platform_message_id=None)


CONTENT = {
    "an own message": ({"reply_to": {"text": "x", "sender_id": "5", "is_self": False}}, False),
    "the bot": ({"reply_to": {"text": "x", "sender_id": "99", "is_self": True}}, False),
    "a stranger": ({"reply_to": {"text": "x", "sender_id": "7", "is_self": False}}, True),
    "nobody knows whom": ({"reply_to": {"text": "x", "sender_id": None}}, True),
    "what a stranger wrote first": ({"reply_to": {"text": "x", "sender_id": "5", "origin_id": "7"}}, True),
    "by a forward": ({"is_forward": True}, True),
}


@pytest.mark.parametrize(("content", "expected"), CONTENT.values(), ids=CONTENT)
def test_a_known_person_may_quote(conn, content, expected):
    let_in(conn, "5")
    assert is_stranger(conn, sender_id="5", content=content) is expected


def test_a_webhook_counts_as_a_strangers(conn):
    let_in(conn, "5")
    assert is_stranger(conn, kind="webhook")


def test_a_task_counts_as_a_strangers_where_one_ever_wrote_in_its_conversation(conn):
    let_in(conn, "5")
    planned = message(conn, kind="task", sender_id="5")
    assert not company.is_of_stranger(conn, planned)
    with transaction(conn):
        sessions.note_strangers(conn, planned.session_id, now_ms=NOW)
        sessions.succeed(conn, sessions.close(conn, planned.session_id, now_ms=NOW), now_ms=NOW)
    later = message(conn, kind="task", sender_id="5")
    assert later.session_id != planned.session_id
    assert company.is_of_stranger(conn, later)
    assert not is_stranger(conn, sender_id="5")


@pytest.mark.parametrize("strangers", [False, True])
def test_another_agent_is_as_its_session_and_so_is_its_answer(conn, strangers):
    make_agent(conn, "bob")
    asked = put(conn, "ask bob")
    with transaction(conn):
        if strangers:
            sessions.note_strangers(conn, rows_of_mailbox.get(conn, asked).message.session_id, now_ms=NOW)
        question = mailbox.send(conn, "assistant", "bob", "42?", because=asked, now_ms=NOW)
        if strangers:
            sessions.note_strangers(conn, rows_of_mailbox.get(conn, question).message.session_id, now_ms=NOW)
        answer = mailbox.reply(conn, question, "yes", now_ms=NOW).message
    for row in (question, answer):
        assert company.is_of_stranger(conn, rows_of_mailbox.get(conn, row).message) is strangers


def test_a_line_of_a_room_counts_as_a_strangers(conn):
    for name in ("alice", "bob"):
        make_agent(conn, name)
    team = Team("dev", "Dev", "alice", ("alice", "bob"))
    with transaction(conn):
        teams.save(conn, team, now_ms=NOW)
        rooms.post(conn, team, "hello", from_agent="alice", now_ms=NOW)
        (row,) = conn.execute("SELECT id FROM messages WHERE agent = 'bob'").fetchone()
    assert company.is_of_stranger(conn, rows_of_mailbox.get(conn, row).message)


def test_only_owners_admins_and_operators_administer(conn):
    make_owner(conn, "1")
    let_in(conn, "5")
    by = {
        "owner": {"sender_id": "1"},
        "member": {"sender_id": "5"},
        "operator": {"sender_id": None, "platform_message_id": None},
    }
    found = {who: company.administer(conn, "assistant", [message(conn, **fields)]) for who, fields in by.items()}
    assert found == {"owner": True, "member": False, "operator": True}
