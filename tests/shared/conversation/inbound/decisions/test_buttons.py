"""Who may decide, and by which button."""

import itertools
import signal

import apsw
import pytest

from shared.conversation.access import people
from shared.conversation.inbound import decisions
from shared.conversation.inbound.decisions import OPERATOR, Decider
from shared.conversation.routing.apply import Routed
from shared.core.errors import NotAllowed, NotFound, WrongState
from shared.db.access import approvals
from shared.db.engine.connection import rows, transaction
from tests.approval_requests import LATE, POLICY, ask_chat, ask_sender, event, person, shown
from tests.forks import race, receive, start
from tests.shared.conversation.inbound.decisions.kit import (
    ask_action,
    decide,
    dropped,
    expire,
    press,
    said,
    standing,
    texts,
)
from tests.support import NOW, column, dump, make_agent, make_chat, make_session

MATTERS = {
    "sender": lambda conn, session: ask_sender(conn, event()).approval,
    "chat": lambda conn, session: ask_chat(conn, event(chat="-7")).approval,
    "action of its own": lambda conn, session: ask_action(conn, session, "unwire_chat", {"destination": "chat-1"}),
    "action of everything": lambda conn, session: ask_action(conn, session),
}
BY = {
    "owner": ("owner", None, set(MATTERS)),
    "admin of everything": ("admin", None, set(MATTERS)),
    "admin of the agent": ("admin", "assistant", {"sender", "action of its own"}),
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
from shared.conversation.inbound import decisions
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
from shared.conversation.inbound import decisions
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
