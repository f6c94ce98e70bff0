"""One card after the other, and those without a decision."""

import json

import pytest

from shared.conversation.access import cards, requests
from shared.core.errors import WrongState
from shared.db.access import approvals
from shared.db.engine.connection import rows, transaction
from shared.db.roster import agents, chats
from shared.rest.admin import retire
from tests.approval_requests import LATE, POLICY, ask_chat, ask_sender, event, shown
from tests.shared.conversation.inbound.decisions.kit import (
    LATER,
    ask_action,
    decide,
    dropped,
    expire,
    press,
    said,
    standing,
    texts,
)
from tests.support import NOW, column, dump, make_agent, make_session, row, wire


def test_the_next_card_of_a_chat_is_shown_when_the_one_before_is_decided(conn, place, owner):
    first, second, third = (ask_sender(conn, event(sender, sender)).approval for sender in "567")
    assert len(shown(conn)) == 1
    decide(conn, first)
    assert [approvals.get(conn, each.approval_id).card is not None for each in (first, second, third)] == [
        True,
        True,
        False,
    ]
    expire(conn)
    assert approvals.get(conn, third.approval_id).status == "expired"


def test_the_next_card_is_shown_when_the_one_before_expires(conn, place, owner):
    ask_sender(conn, event("1", "5"))
    second = ask_sender(conn, event("2", "6"), now_ms=NOW + 1).approval
    assert approvals.get(conn, second.approval_id).card is None
    expire(conn)
    assert approvals.get(conn, second.approval_id).card is not None


def test_the_next_new_chat_is_shown_when_one_before_is_decided(conn, owner):
    new = [event(str(number), sender=str(50 + number), chat=f"-{number + 1}") for number in range(5)]
    asked = [ask_chat(conn, each).approval for each in new]
    assert [approvals.get(conn, each.approval_id).card is None for each in asked] == [False] * 3 + [True] * 2
    decide(conn, asked[0], 1)
    assert [approvals.get(conn, each.approval_id).card is None for each in asked] == [False] * 4 + [True]


def test_an_expired_approval_says_so_on_its_card_and_drops_its_held_messages(conn, place, owner):
    approval = ask_sender(conn, event()).approval
    assert expire(conn, LATE - 1) == 0
    assert expire(conn) == 1
    assert expire(conn) == 0
    assert dropped(conn) == [("approval_expired", "1")]
    assert column(conn, "SELECT count(*) FROM held") == [0]
    assert shown(conn)[-1][1] == {"edits": approvals.get(conn, approval.approval_id).card}
    assert said(conn)[-1].endswith("**Expired\\: nobody answered\\.**")
    assert standing(conn).refused_by == frozenset()
    assert ask_sender(conn, event("2"), now_ms=LATE).outcome == "held", "they may try again"


def test_a_chat_whose_approval_expires_is_refused(conn, owner):
    ask_chat(conn, event(chat="-7"))
    expire(conn)
    assert chats.find(conn, "telegram", "-7").refused_at == LATE
    assert dropped(conn) == [("approval_expired", "1")]


@pytest.fixture
def coder(conn, place):
    """A second agent that answers there, and has been talked to."""
    make_agent(conn, "coder")
    wire(conn, place, "coder")
    make_session(conn, "coder")
    return "coder"


def let_go(conn, agent="coder"):
    with transaction(conn):
        return retire.delete_agent(conn, agent, now_ms=LATER)


@pytest.mark.parametrize("end", ["retired", "deleted"])
def test_the_pending_approvals_of_a_deleted_agent_end_with_it(conn, place, owner, coder, end):
    approval = ask_sender(conn, event(), "coder").approval
    other = ask_sender(conn, event("2", "6")).approval
    assert approvals.get(conn, other.approval_id).card is None, "one card of a chat at a time"
    if end == "deleted":
        rows(conn, "DELETE FROM sessions")
    assert let_go(conn) == end
    ended = approvals.get(conn, approval.approval_id)
    assert (ended.status, ended.payload["withdrawn"], ended.updated_at) == ("expired", "agent coder was deleted", LATER)
    assert said(conn) == [cards.closed(ended, "Withdrawn: agent coder was deleted.")]
    assert dropped(conn) == [("not_wired", "1")]
    assert column(conn, "SELECT event_key FROM held") == ["2"]
    told = column(conn, "SELECT data ->> 'approval' FROM events WHERE type = 'approval_expired'")
    assert told == [approval.approval_id]
    assert approvals.get(conn, other.approval_id).card is not None, "the next card is shown"
    assert press(conn, approval).dropped == "decided_already"
    assert "agent coder was deleted" in said(conn)[-1]


def test_the_request_of_a_deleted_agent_is_not_done(conn, place, owner, coder):
    _, session = make_session(conn, "coder")
    with transaction(conn):
        approval = requests.ask_action(
            conn, session, "coder", "create_agent", {"name": "Bob"}, policy=POLICY, now_ms=NOW
        )
    let_go(conn)
    with pytest.raises(WrongState, match="is expired already"):
        decide(conn, approval)
    assert texts(conn) == []


def test_deleting_an_agent_ends_no_approval_of_another(conn, place, owner, coder):
    approval = ask_sender(conn, event(), "coder").approval
    with transaction(conn):
        agents.make_default(conn, "coder", now_ms=NOW)
    before = dump(conn)
    with pytest.raises(WrongState, match="is the default"):
        let_go(conn)
    assert dump(conn) == before
    assert decide(conn, approval).stored == 1


@pytest.mark.parametrize("by", ["press", "operator"])
def test_a_deleted_agent_can_not_be_chosen_for_a_new_chat_and_another_can(conn, owner, by):
    make_agent(conn, "coder")
    approval = ask_chat(conn, event(chat="-7", is_group=True)).approval
    assert approval.payload["agents"] == ["assistant", "coder"]
    let_go(conn)
    if by == "press":
        assert press(conn, approval, 1).dropped == "approval_failed"
        assert said(conn)[-1] == "Not done: agent coder was deleted: choose another one."
    else:
        with pytest.raises(WrongState, match="agent coder was deleted: choose another one"):
            decide(conn, approval, 1)
    assert approvals.get(conn, approval.approval_id).status == "pending"
    assert decide(conn, approval, 0).stored == 1


def test_an_agent_is_told_that_its_request_expired(conn, owner):
    _, session = make_session(conn)
    ask_action(conn, session)
    expire(conn)
    told = row(conn, "messages")
    assert (told["session_id"], told["kind"]) == (session, "system")
    assert "Expired: nobody answered." in told["message"]
    assert json.loads(told["content"])["status"] == "expired"


def test_another_process_reads_the_outcome_from_the_rows(conn, other, place, owner):
    approval = ask_sender(conn, event()).approval
    conn.close()
    assert press(other, approval).stored == 1
    assert texts(other) == ["text of 1"]
