import itertools
import json
import signal

import apsw
import pytest

from shared.access import actions, cards, people, requests
from shared.admin import retire
from shared.core.errors import NotAllowed, NotFound, WrongState
from shared.db.access import approvals
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, sessions
from shared.db.roster import agents, chats, destinations, wirings
from shared.inbound import decisions
from shared.inbound.decisions import OPERATOR, Decider
from shared.queue import turns
from shared.queue.turns import TurnReply
from shared.routing import router
from shared.routing.apply import Routed
from tests.approval_requests import LATE, POLICY, ask_chat, ask_sender, event, person, shown
from tests.forks import race, receive, start
from tests.support import NOW, column, dump, make_agent, make_chat, make_session, row, wire

LATER = NOW + 5


@pytest.fixture
def place(conn):
    """A group with an agent."""
    chat = make_chat(conn, is_group=True)
    wire(conn, chat)
    return chat


@pytest.fixture
def owner(conn):
    return person(conn, "1", "owner")


def decide(conn, approval, choice=0, by=OPERATOR, now_ms=LATER):
    with transaction(conn):
        return decisions.decide(conn, approval.approval_id, choice, by, policy=POLICY, now_ms=now_ms)


def press(conn, approval, choice=0, sender="1", key="c1", channel="telegram", now_ms=LATER, chat=None):
    token = approval if isinstance(approval, str) else f"{approval.approval_id}.{choice}"
    pressed = event(key, sender, chat or sender, kind="callback", text=token, context={"callback_id": "q"})
    with transaction(conn):
        return decisions.click(conn, channel, pressed, policy=POLICY, now_ms=now_ms)


def dropped(conn):
    return rows(conn, "SELECT reason, event_key FROM dropped ORDER BY id")


def standing(conn, sender="5"):
    return people.standing(conn, "telegram", sender)


def texts(conn, **of):
    return column(conn, "SELECT message FROM messages ORDER BY id")


def said(conn):
    """What was said after the cards."""
    return [message for (message,) in rows(conn, "SELECT message FROM responses WHERE content NOT LIKE '%buttons%'")]


# -- about a stranger


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


# -- about a new chat


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
            decisions.expire(conn, limit=9, now_ms=LATE)
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


# -- what agents ask for


def ask_action(conn, session, action="create_agent", given=None):
    with transaction(conn):
        return requests.ask_action(
            conn, session, "assistant", action, given or {"name": "Bob"}, policy=POLICY, now_ms=NOW
        )


def ask_tool(conn, session, **given):
    with transaction(conn):
        return requests.ask_tool(conn, session, "assistant", "shell", given, policy=POLICY, now_ms=NOW)


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
    approval = ask_tool(conn, session, command="ls")
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


# -- who may decide

MATTERS = {
    "sender": lambda conn, session: ask_sender(conn, event()).approval,
    "chat": lambda conn, session: ask_chat(conn, event(chat="-7")).approval,
    "action of its own": lambda conn, session: ask_action(conn, session, "unwire_chat", {"destination": "chat-1"}),
    "action of everything": lambda conn, session: ask_action(conn, session),
    "tool": lambda conn, session: ask_tool(conn, session),
}
BY = {
    "owner": ("owner", None, set(MATTERS)),
    "admin of everything": ("admin", None, set(MATTERS)),
    "admin of the agent": ("admin", "assistant", {"sender", "action of its own", "tool"}),
    "admin of another": ("admin", "second", set()),
    "member": (None, None, set()),
}


@pytest.mark.parametrize("matter", MATTERS)
@pytest.mark.parametrize("who", BY)
def test_only_an_approver_decides(conn, place, owner, who, matter):
    make_agent(conn, "second")
    role, agent, may = BY[who]
    user = person(conn, "66", role, agent)
    if role is None:
        with transaction(conn):
            people.add_member(conn, user.id, "assistant", by="t", now_ms=NOW)
    _, session = make_session(conn)
    approval = MATTERS[matter](conn, session)
    by = Decider(user.display_name, user)
    if matter in may:
        assert decide(conn, approval, by=by).approval.decided_by == "telegram 66 (N66)"
    else:
        before = dump(conn)
        with pytest.raises(NotAllowed, match="Only an owner, or an admin"):
            decide(conn, approval, by=by)
        assert dump(conn) == before


def test_an_approval_that_is_unknown_decided_or_over_can_not_be_decided(conn, place, owner):
    approval = ask_sender(conn, event()).approval
    with pytest.raises(NotFound), transaction(conn):
        decisions.decide(conn, "approval_x", 0, OPERATOR, policy=POLICY, now_ms=NOW)
    with pytest.raises(WrongState, match="has no choice 2"):
        decide(conn, approval, 2)
    with pytest.raises(WrongState, match="has expired"):
        decide(conn, approval, now_ms=LATE)
    decide(conn, approval)
    before = dump(conn)
    with pytest.raises(WrongState, match="is approved"):
        decide(conn, approval, 1)
    assert dump(conn) == before


# -- buttons


def test_a_press_decides_and_the_card_names_the_approver(conn, place, owner):
    approval = ask_sender(conn, event()).approval
    assert press(conn, approval) == Routed(stored=1, said=True)
    assert texts(conn) == ["text of 1"]
    assert approvals.get(conn, approval.approval_id).decided_by == "telegram 1 (N1)"
    card, (where, change) = approvals.get(conn, approval.approval_id).card, shown(conn)[-1]
    assert (where, change["edits"], change["click"]) == ("telegram 1", card, {"callback_id": "q"})
    assert "buttons" not in change
    assert said(conn) == [
        "telegram 5 \\(Ana\\) wants to talk to Assistant in the group \\(telegram 100\\)"
        "\n\n**Allowed by telegram 1 \\(N1\\)\\.**"
    ]


def test_a_card_that_never_arrived_is_not_changed(conn, place, owner):
    approval = ask_sender(conn, event()).approval
    rows(conn, "UPDATE responses SET status = 'dead'")
    decide(conn, approval)
    assert said(conn) == []


def test_a_redelivered_press_does_nothing(conn, place, owner):
    approval = ask_sender(conn, event()).approval
    press(conn, approval)
    before = dump(conn)
    assert press(conn, approval) == Routed()
    assert dump(conn) == before


@pytest.mark.parametrize("sender", ["5", "66", None], ids=["the sender in question", "a stranger", "no sender"])
def test_a_strangers_press_decides_nothing_and_is_answered_once(conn, place, owner, sender):
    approval = ask_sender(conn, event()).approval
    for _ in range(2):
        clicked = press(conn, approval, sender=sender, chat="100")
        assert clicked.dropped == "not_approver"
    assert approvals.get(conn, approval.approval_id).status == "pending"
    assert (texts(conn), dropped(conn)) == ([], [("not_approver", "c1")])
    assert said(conn) == ["Only an owner, or an admin of assistant, may decide this."]
    assert shown(conn)[-1] == ("telegram 100", {"click": {"callback_id": "q"}})


def test_the_same_id_on_another_platform_is_another_person(conn, place, owner):
    approval = ask_sender(conn, event()).approval
    assert press(conn, approval, channel="discord").dropped == "not_approver"


def test_a_second_press_is_told_who_decided(conn, place, owner):
    person(conn, "2", "admin")
    approval = ask_sender(conn, event()).approval
    press(conn, approval)
    make_chat(conn, "2")
    assert press(conn, approval, 1, sender="2", key="c2").dropped == "decided_already"
    assert said(conn)[-1] == "Already approved by telegram 1 (N1)."
    assert dropped(conn) == [("decided_already", "c2")]
    assert standing(conn).member_of == {"assistant"}


def test_a_late_press_is_told_that_it_is_too_late(conn, place, owner):
    approval = ask_sender(conn, event()).approval
    press(conn, approval, now_ms=LATE)
    assert said(conn) == ["Too late: the time for it is over."]
    expire(conn)
    press(conn, approval, key="c2", now_ms=LATE)
    assert said(conn)[-1] == "Too late: nobody answered in time, and it expired."


@pytest.mark.parametrize(
    "token", ["", "approval_00000000.0", "approval_00000000", "question_00000000.0", "{id}.2", "{id}.00", "{id}.0\n"]
)
def test_a_button_of_no_approval_is_ignored(conn, place, owner, token):
    approval = ask_sender(conn, event()).approval
    before = dump(conn)
    assert press(conn, token.format(id=approval.approval_id)) is None
    assert dump(conn) == before


CLICKS = """
from shared.inbound import decisions
from tests.approval_requests import POLICY, event
from tests.support import NOW
token, key, sender = sys.argv[2:]
pressed = event(key, sender, sender, kind="callback", text=token, context={})
with transaction(conn):
    print(decisions.click(conn, "telegram", pressed, policy=POLICY, now_ms=NOW).dropped)
"""


def test_of_presses_at_the_same_instant_one_decides_and_the_others_are_told(conn, db, place):
    for sender in "1234":
        person(conn, sender, "owner")
        make_chat(conn, sender)
    approval = ask_sender(conn, event()).approval
    presses = [(f"{approval.approval_id}.{int(sender) % 2}", f"c{sender}", sender) for sender in "1234"]
    assert sorted(race(db, CLICKS, presses)) == ["None"] + ["decided_already"] * 3
    decided = approvals.get(conn, approval.approval_id)
    is_yes = decided.status == "approved"
    assert texts(conn) == (["text of 1"] if is_yes else [])
    assert standing(conn).member_of == ({"assistant"} if is_yes else frozenset())
    assert standing(conn).refused_by == (frozenset() if is_yes else {"assistant"})
    word = "approved" if is_yes else "refused"
    assert said(conn).count(f"Already {word} by {decided.decided_by}.") == 3
    assert len(said(conn)) == 4


def test_the_same_press_in_several_processes_decides_once_and_is_answered_once(conn, db, place, owner):
    approval = ask_sender(conn, event()).approval
    assert race(db, CLICKS, [(f"{approval.approval_id}.0", "c1", "1")] * 4) == ["None"] * 4
    assert texts(conn) == ["text of 1"]
    assert (len(said(conn)), dropped(conn)) == (1, [])


KILLED = """
import os, signal, sys, pathlib
from shared.inbound import decisions
from shared.db.engine.connection import open_connection, transaction
from tests.approval_requests import POLICY
from tests.support import NOW
conn = open_connection(pathlib.Path(sys.argv[1]))
left = int(sys.argv[3])
def count(*_):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return True
with transaction(conn):
    conn.set_exec_trace(count)
    decisions.decide(conn, sys.argv[2], 0, decisions.OPERATOR, policy=POLICY, now_ms=NOW)
left = 9
print("done")
"""


def test_a_kill_between_the_decision_and_its_consequences_leaves_nothing_half_done(conn, db, place, owner):
    """It is one transaction: before its commit nothing of it is there, whatever statement it was killed at."""
    approval = ask_sender(conn, event()).approval
    before = dump(conn)
    for statements in itertools.count(1, 4):
        out, error, code = receive(*start(KILLED, [str(db), approval.approval_id, str(statements)]))
        if out == "done\n":
            break
        assert code == -signal.SIGKILL, error
        assert dump(conn) == before
    assert statements > 13, "what is to be interrupted has to be under way"
    assert texts(conn) == ["text of 1"]
    assert column(conn, "SELECT count(*) FROM held") == [0]


def test_an_error_of_the_database_decides_nothing(conn, place, owner):
    approval = ask_sender(conn, event()).approval
    rows(conn, "CREATE TRIGGER full BEFORE INSERT ON members BEGIN SELECT RAISE(ABORT, 'disk'); END")
    before = dump(conn)
    with pytest.raises(apsw.ConstraintError):
        decide(conn, approval)
    assert dump(conn) == before


# -- one card after the other


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
    asked = [ask_chat(conn, event(str(number), chat=f"-{number + 1}")).approval for number in range(5)]
    assert [approvals.get(conn, each.approval_id).card is None for each in asked] == [False] * 3 + [True] * 2
    decide(conn, asked[0], 1)
    assert [approvals.get(conn, each.approval_id).card is None for each in asked] == [False] * 4 + [True]


# -- without a decision


def expire(conn, now_ms=LATE):
    with transaction(conn):
        return decisions.expire(conn, limit=9, now_ms=now_ms)


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
    given = {"command": "ls"}
    with transaction(conn):
        approval = requests.ask_tool(conn, session, "coder", "shell", given, policy=POLICY, now_ms=NOW)
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
    ask_tool(conn, session, command="ls")
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
