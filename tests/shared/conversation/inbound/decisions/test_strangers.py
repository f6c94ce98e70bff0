"""A decision about a stranger."""

import pytest

from shared.conversation.access import people
from shared.conversation.inbound import decisions
from shared.conversation.routing import router
from shared.db.access import approvals
from shared.db.engine.connection import rows, transaction
from shared.db.roster import chats, wirings
from tests.approval_requests import LATE, POLICY, ask_chat, ask_sender, event
from tests.shared.conversation.inbound.decisions.kit import LATER, decide, dropped, said, standing, texts
from tests.support import NOW, column, dump, make_chat, wire


def test_an_approval_makes_a_member_and_stores_the_held_messages_once_and_in_order(conn, place, owner):
    approval, *_ = (ask_sender(conn, event(key)).approval for key in "123")
    done = decide(conn, approval)
    assert (done.sentence, done.problem, done.stored) == ("Allowed by operator.", None, 3)
    assert standing(conn).member_of == {"assistant"}
    assert texts(conn) == ["text of 1", "text of 2", "text of 3"]
    assert column(conn, "SELECT trigger FROM messages") == [1, 1, 1]
    assert column(conn, "SELECT count(*) FROM held") == [0]
    assert dropped(conn) == []


def test_a_redelivery_after_the_approval_is_not_stored_twice(conn, place, owner):
    approval = ask_sender(conn, event()).approval
    decide(conn, approval)
    with transaction(conn):
        assert router.route_held(conn, "telegram", event(), "assistant", POLICY, now_ms=LATER).stored == 0
    assert texts(conn) == ["text of 1"]


def test_a_refusal_lasts_and_leaves_the_reason_and_nothing_of_the_text(conn, place, owner):
    approval, *_ = (ask_sender(conn, event(key)).approval for key in "12")
    done = decide(conn, approval, 1)
    assert (done.sentence, done.stored) == ("Refused by operator.", 0)
    assert standing(conn).refused_by == {"assistant"}
    assert dropped(conn) == [("sender_refused", "1"), ("sender_refused", "2")]
    rows(conn, "DELETE FROM responses")  # the card, which is pruned
    assert "text of" not in str(dump(conn))


def test_the_refusal_of_a_person_who_became_an_admin_says_that_it_changes_nothing(conn, place, owner):
    approval = ask_sender(conn, event()).approval
    people.grant(conn, approval.user_id, "admin", "assistant", by="test", now_ms=NOW)
    done = decide(conn, approval, 1)
    assert done.problem.startswith(f"user {approval.user_id} is an admin of assistant, who may talk to agent assistant")
    assert done.sentence.startswith("Refused by operator. But it could not be done: user ")
    assert standing(conn).refused_by == frozenset()
    assert dropped(conn) == [("approval_failed", "1")]


def test_held_messages_are_dropped_with_a_reason_where_the_agent_no_longer_answers(conn, place, owner):
    approval = ask_sender(conn, event()).approval
    with transaction(conn):
        wirings.delete(conn, place, "assistant")
    done = decide(conn, approval)
    assert done.stored == 0
    assert "assistant no longer answers there" in done.sentence
    assert standing(conn).member_of == {"assistant"}
    assert dropped(conn) == [("not_wired", "1")]


def test_a_consequence_that_fails_is_undone_whole_and_reported_and_the_decision_stands(conn, place, owner):
    approval = ask_sender(conn, event()).approval
    rows(conn, "UPDATE agents SET retired_at = 1, is_default = 0")
    done = decide(conn, approval)
    assert done.problem == "there is no agent 'assistant'"
    assert done.sentence == "Allowed by operator. But it could not be done: there is no agent 'assistant'."
    assert approvals.get(conn, approval.approval_id).status == "approved"
    assert standing(conn).member_of == frozenset()
    assert dropped(conn) == [("approval_failed", "1")]
    assert said(conn)[-1].endswith("could not be done\\: there is no agent \\'assistant\\'\\.**")


@pytest.mark.parametrize("is_there", [False, True], ids=["a new id", "an id that has a chat"])
@pytest.mark.parametrize("is_wired", [False, True])
def test_messages_held_in_a_group_that_moved_are_stored_for_their_agent(conn, owner, is_there, is_wired):
    chat = make_chat(conn, is_group=True)
    if is_wired:
        wire(conn, chat)
    approval = (ask_sender if is_wired else ask_chat)(conn, event(is_group=True)).approval
    if is_there:
        make_chat(conn, "-200", is_group=True)
    with transaction(conn):
        chats.move(conn, "telegram", "100", "-200", now_ms=NOW)
    assert decide(conn, approval).stored == 1
    assert rows(conn, "SELECT message, platform_id FROM messages") == [("text of 1", "-200")]


def test_the_same_person_is_not_asked_about_twice_in_two_chats(conn, place, owner):
    wire(conn, make_chat(conn, "200", is_group=True))
    first, second = (ask_sender(conn, event(key, chat=chat)).approval for key, chat in (("1", "100"), ("2", "200")))
    assert decide(conn, first).stored == 2
    assert texts(conn) == ["text of 1", "text of 2"]
    assert approvals.get(conn, second.approval_id).decided_by == "operator"
    assert len(said(conn)) == 2, "both cards say what came of it"


def test_a_sender_who_becomes_a_member_another_way_gets_in_and_the_card_is_closed(conn, place, owner):
    approval = ask_sender(conn, event()).approval
    with transaction(conn):
        people.add_member(conn, approval.user_id, "assistant", by="operator", now_ms=LATER)
        stored = decisions.reconsider(conn, approval.user_id, by="operator", policy=POLICY, now_ms=LATER)
    assert (stored, texts(conn)) == (1, ["text of 1"])
    assert "Allowed by operator" in said(conn)[0]


def test_an_approval_whose_time_is_over_expires_even_if_the_sender_is_a_member_by_now(conn, place, owner):
    approval = ask_sender(conn, event()).approval
    with transaction(conn):
        people.add_member(conn, approval.user_id, "assistant", by="operator", now_ms=LATE)
        assert decisions.reconsider(conn, approval.user_id, by="operator", policy=POLICY, now_ms=LATE) == 0
    assert approvals.get(conn, approval.approval_id).status == "pending"


def test_a_new_member_does_not_choose_the_agent_of_a_new_chat(conn, owner):
    approval = ask_chat(conn, event(sender="1", chat="-7", is_group=True)).approval
    with transaction(conn):
        assert decisions.reconsider(conn, owner.id, by="operator", policy=POLICY, now_ms=LATER) == 0
    assert approvals.get(conn, approval.approval_id).status == "pending"
