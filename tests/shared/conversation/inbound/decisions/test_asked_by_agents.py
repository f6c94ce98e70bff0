"""A decision about what an agent asks for."""

import json

import pytest

from shared.conversation.access import actions
from shared.core.errors import NotFound, WrongState
from shared.db.access import approvals
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, sessions
from shared.db.roster import agents, destinations, wirings
from shared.queue import turns
from shared.queue.turns import TurnReply
from tests.shared.conversation.inbound.decisions.kit import ask_action, decide, said, texts
from tests.support import NOW, make_agent, make_chat, make_session, row, wire


def test_an_approved_new_agent_is_like_the_requesting_one_and_each_can_send_to_the_other(conn, owner):
    rows(
        conn, """UPDATE agents SET provider = 'command', config = '{"command": ["cat"]}', timezone = 'Europe/Zurich'"""
    )
    _, session = make_session(conn)
    done = decide(conn, ask_action(conn, session, given={"name": "Bob B", "instructions": "Be brief."}))
    made = agents.get(conn, "bob-b")
    assert (made.name, made.provider, made.instructions) == ("Bob B", "command", "Be brief.")
    assert (made.config, made.timezone, made.is_default) == ({"command": ["cat"]}, "Europe/Zurich", False)
    assert destinations.find(conn, "assistant", target_agent="bob-b").name == "bob-b"
    assert destinations.find(conn, "bob-b", target_agent="assistant").name == "assistant"
    assert done.sentence.startswith("Approved by operator. Agent bob-b is created")


def test_the_session_that_asked_is_told_and_has_a_turn(conn, owner):
    chat, session = make_session(conn, thread="3")
    done = decide(conn, ask_action(conn, session))
    assert done.stored == 1
    told = row(conn, "messages")
    names = ("kind", "agent", "session_id", "chat_id", "platform_id", "thread_id", "trigger", "status")
    assert [told[name] for name in names] == ["system", "assistant", session, chat, "100", "3", 1, "pending"]
    assert told["message"].startswith("Agent assistant asks to make another agent, like itself: Approved by operator.")


def test_the_outcome_goes_to_the_session_that_replaced_the_one_that_asked(conn, owner):
    _, session = make_session(conn)
    approval = ask_action(conn, session)
    with transaction(conn):
        sessions.close(conn, session, now_ms=NOW)
    decide(conn, approval, 1)
    told = row(conn, "messages")
    assert told["session_id"] != session
    assert ": Refused by operator." in told["message"]


def test_a_private_session_is_told_in_private(conn, owner):
    """What the agent says about the outcome is for the person who asked, and not for the whole chat."""
    chat = make_chat(conn)
    with transaction(conn):
        session = sessions.ensure(conn, "assistant", chat, None, private_to="5", now_ms=NOW)
    decide(conn, ask_action(conn, session))
    told = row(conn, "messages")
    assert (told["session_id"], json.loads(told["content"])["context"]) == (session, {"receiver_user_id": "5"})
    with transaction(conn):
        claim = claims.claim(conn, "assistant", session, token="t", now_ms=NOW, lease_ms=1000, limit=9)
        turns.settle(conn, claim, [TurnReply("done", claim.asked[0])], None, now_ms=NOW)
    said = json.loads(row(conn, "responses")["content"])
    assert said["context"] == {"receiver_user_id": "5"}


def test_an_approved_action_that_fails_is_reported_to_the_session_and_the_approver(conn, owner):
    wire(conn, make_chat(conn, "200"))
    _, session = make_session(conn)
    (called,) = destinations.of_agent(conn, "assistant")
    approval = ask_action(conn, session, "unwire_chat", {"destination": called.name})
    rows(conn, "DELETE FROM destinations")
    done = decide(conn, approval)
    assert done.problem == f"agent 'assistant' has no chat {called.name!r} among its destinations"
    assert done.problem in row(conn, "messages")["message"]


def test_an_action_that_fails_in_the_middle_leaves_nothing(conn, owner, monkeypatch):
    def fails(conn, agent, wanted, *, now_ms):
        agents.make_default(conn, "second", now_ms=now_ms)
        raise WrongState("there is no room for it")

    half = actions.Action("do two things", True, lambda conn, agent, given: dict(given), fails)
    monkeypatch.setitem(actions.ACTIONS, "two_things", half)
    make_agent(conn, "second")
    _, session = make_session(conn)
    done = decide(conn, ask_action(conn, session, "two_things"))
    assert done.sentence == "Approved by operator. But it could not be done: there is no room for it."
    assert agents.default(conn).id == "assistant"
    assert approvals.get(conn, done.approval.approval_id).status == "approved"


def test_an_action_is_checked_again_when_it_is_done(conn, owner, monkeypatch):
    def check(conn, agent, given):
        if agents.get(conn, "second") is None:
            raise NotFound("second is gone")
        return dict(given)

    once = actions.Action("do it", False, check, lambda conn, agent, wanted, *, now_ms: "Done.")
    monkeypatch.setitem(actions.ACTIONS, "once", once)
    make_agent(conn, "second")
    _, session = make_session(conn)
    approvals_of_it = [ask_action(conn, session, "once", {"number": number}) for number in range(2)]
    assert decide(conn, approvals_of_it[0]).sentence == "Approved by operator. Done."
    with transaction(conn):
        agents.delete(conn, "second")
    assert decide(conn, approvals_of_it[1]).problem == "second is gone"


def test_a_chat_is_wired_and_unwired_whole(conn, owner):
    chat, session = make_session(conn)
    make_chat(conn, "200")
    decide(conn, ask_action(conn, session, "wire_chat", {"channel": "telegram", "platform_id": "200"}))
    found = destinations.of_agent(conn, "assistant")
    assert [(each.target_chat) for each in found] == [chat + 1]
    decide(conn, ask_action(conn, session, "unwire_chat", {"destination": found[0].name}))
    assert destinations.of_agent(conn, "assistant") == wirings.of_chat(conn, chat + 1) == []


def test_an_agent_that_is_wired_beside_another_one_is_told_so(conn, owner):
    _, session = make_session(conn)
    make_agent(conn, "second")
    wire(conn, make_chat(conn, "200"), "second")
    done = decide(conn, ask_action(conn, session, "wire_chat", {"channel": "telegram", "platform_id": "200"}))
    assert "assistant answers there beside Second, and sends to it as" in done.sentence


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_an_agent_is_not_told_in_the_chat_that_it_may_leave(conn, owner, where):
    chat, session = make_session(conn)
    left = chat if where == "here" else make_chat(conn, "200")
    for each in {chat, left}:
        wire(conn, each)
    called = destinations.find(conn, "assistant", chat=left).name
    done = decide(conn, ask_action(conn, session, "unwire_chat", {"destination": called}))
    assert (done.problem, wirings.of_chat(conn, left)) == (None, [])
    assert done.stored == len(texts(conn)) == (0 if where == "here" else 1)
    assert "no longer answers there" in said(conn)[-1].replace("\\", "")


def test_a_leave_that_is_refused_or_fails_is_told_in_the_session_that_asked(conn, owner):
    chat, session = make_session(conn)
    wire(conn, chat)
    called = destinations.find(conn, "assistant", chat=chat).name
    for choice in (1, 0):
        approval = ask_action(conn, session, "unwire_chat", {"destination": called})
        if choice == 0:
            rows(conn, "DELETE FROM destinations")
        assert decide(conn, approval, choice).stored == 1
