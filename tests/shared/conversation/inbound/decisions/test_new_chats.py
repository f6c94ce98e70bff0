"""A decision about a new chat."""

import pytest

from shared.conversation.inbound import decisions, undecided
from shared.db.access import approvals
from shared.db.engine.connection import rows, transaction
from shared.db.roster import chats, destinations, wirings
from tests.approval_requests import LATE, ask_chat, event
from tests.shared.conversation.inbound.decisions.kit import LATER, decide, dropped, said, standing, texts
from tests.support import column, make_agent, wire


@pytest.mark.parametrize("is_group", [False, True])
def test_a_new_chat_gets_the_chosen_agent_and_never_one_that_answers_everything(conn, owner, is_group):
    make_agent(conn, "second")
    approval = ask_chat(conn, event(chat="-7", is_group=is_group, thread_id="3" if is_group else None)).approval
    done = decide(conn, approval, 1)
    assert (done.sentence, done.stored) == ("Connected by operator. Second answers there now.", 1)
    chat = chats.find(conn, "telegram", "-7")
    (wired,) = wirings.of_chat(conn, chat.id)
    assert (wired.agent, wired.engage_mode) == ("second", "mention-sticky" if is_group else "mention")
    assert chat.sender_policy == "request_approval"
    assert standing(conn).member_of == {"second"}
    assert rows(conn, "SELECT agent, message FROM messages") == [("second", "text of 1")]
    assert destinations.find(conn, "second", chat=chat.id) is not None


def test_other_senders_in_a_new_chat_need_their_own_approval(conn, owner):
    approval = ask_chat(conn, event("1", chat="-7", is_group=True)).approval
    ask_chat(conn, event("2", sender="6", chat="-7", is_group=True))
    assert decide(conn, approval).stored == 1
    assert texts(conn) == ["text of 1"]
    (pending,) = column(conn, "SELECT approval_id FROM approvals WHERE status = 'pending'")
    asked = approvals.get(conn, pending)
    assert (asked.kind, asked.agent) == ("sender", "assistant")
    assert [each.event_key for each in decisions.held_events.of_approval(conn, asked.id)] == ["2"]
    decide(conn, asked)
    assert texts(conn) == ["text of 1", "text of 2"]


def test_an_ignored_chat_stays_unwired_and_is_not_asked_about_again(conn, owner):
    approval = ask_chat(conn, event(chat="-7")).approval
    done = decide(conn, approval, 1)
    assert done.sentence == "Ignored by operator."
    chat = chats.find(conn, "telegram", "-7")
    assert (chat.refused_at, wirings.of_chat(conn, chat.id)) == (LATER, [])
    assert dropped(conn) == [("chat_refused", "1")]
    assert standing(conn).member_of == frozenset()


@pytest.mark.parametrize("end", ["ignore", "expire"])
def test_ignoring_a_chat_that_was_wired_meanwhile_does_not_refuse_it(conn, owner, end):
    approval = ask_chat(conn, event(chat="-7", is_group=True)).approval
    wire(conn, approval.chat_id)
    if end == "ignore":
        decide(conn, approval, len(approval.options) - 1)
    else:
        with transaction(conn):
            undecided.expire(conn, limit=9, now_ms=LATE)
    assert chats.get(conn, approval.chat_id).refused_at is None


@pytest.mark.parametrize(
    ("text", "reason", "says"),
    [
        ("/help", "command_filtered", []),
        ("/COST@our_bot all", "command_refused", ["Only an admin of Assistant may use /cost."]),
        ("@assistant /clear", "command_refused", ["Only an admin of Assistant may use /clear."]),
    ],
)
def test_a_command_held_in_a_new_chat_does_not_evade_its_check(conn, owner, text, reason, says):
    command = "cost" if "our_bot" in text else None
    approval = ask_chat(conn, event(chat="-7", is_group=True, text=text, command=command)).approval
    assert decide(conn, approval).stored == 0
    assert texts(conn) == []
    assert dropped(conn) == [(reason, "1")]
    assert [each.split(" Ask")[0] for each in said(conn) if "admin" in each] == says


def test_an_admins_command_held_in_a_new_chat_is_done(conn, owner):
    approval = ask_chat(conn, event(chat="1", sender="1", text="/clear")).approval
    assert decide(conn, approval).stored == 0
    assert dropped(conn) == [("command_done", "1")]
    assert "Assistant starts afresh: what was said here before is forgotten." in said(conn)
