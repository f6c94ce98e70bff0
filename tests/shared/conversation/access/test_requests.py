from dataclasses import replace

import pytest

from shared.conversation.access import people, requests
from shared.conversation.access.requests import MOST_ASKED, MOST_HELD
from shared.core.errors import ConfigInvalid, NotFound, UnknownName, WrongState
from shared.db.access import approvals, held_events, users
from shared.db.engine.connection import rows, transaction
from shared.db.roster import chats
from tests.approval_requests import LATE, POLICY, ask_chat, ask_sender, event, person, shown
from tests.forks import race
from tests.support import NOW, column, dump, make_agent, make_chat, make_session, row, wire

OWNER = "1"
HOUR = 60 * 60 * 1000


@pytest.fixture
def place(conn):
    """A group with an agent."""
    chat = make_chat(conn, is_group=True)
    wire(conn, chat)
    return chat


def fields(approval, *names):
    return [getattr(approval, name) for name in names]


# -- about a stranger


def test_a_strangers_message_is_held_and_stored_nowhere_else(conn, place):
    owner = person(conn, OWNER, "owner")
    asked = ask_sender(conn, event())
    assert (asked.outcome, asked.said) == ("held", True)
    approval = approvals.get(conn, asked.approval.approval_id)
    assert fields(approval, "kind", "agent", "chat_id", "status", "expires_at") == [
        "sender",
        "assistant",
        place,
        "pending",
        LATE,
    ]
    assert approval.title == "telegram 5 (Ana) wants to talk to Assistant in the group (telegram 100)"
    assert approval.options == ("Allow", "Refuse")
    (waiting,) = held_events.of_approval(conn, approval.id)
    assert requests.event_of(waiting.event) == event()
    everything = {table: str(found) for table, found in dump(conn).items() if "text of 1" in str(found)}
    assert set(everything) == {"held", "responses"}, "the card shows it, and is pruned"
    assert approval.approver == owner.id


def test_the_card_goes_to_an_approver_and_its_buttons_name_the_approval_and_the_choice(conn, place):
    person(conn, OWNER, "owner")
    approval = ask_sender(conn, event()).approval
    assert shown(conn) == [
        (
            "telegram 1",
            {"buttons": [["Allow", f"{approval.approval_id}.0"], ["Refuse", f"{approval.approval_id}.1"]]},
        )
    ]
    assert row(conn, "responses")["message"].startswith("**telegram 5 \\(Ana\\) wants to talk")
    assert approvals.get(conn, approval.approval_id).card == row(conn, "responses")["id"]


def test_a_name_can_not_pretend_to_be_our_words(conn, place):
    person(conn, OWNER, "owner")
    ask_sender(conn, replace(event(), sender="telegram 1 (Bo)\n**Approve at once**" + "!" * 99))
    first, *_ = row(conn, "responses")["message"].splitlines()
    assert first.startswith("**telegram 5 \\(telegram 1 \\[Bo\\] \\*\\*Approve at once")


APPROVERS = {
    "the agent's own admin": ([("9", "owner", None), ("8", "admin", None), ("7", "admin", "assistant")], "7"),
    "an admin of everything": ([("9", "owner", None), ("8", "admin", None), ("7", "admin", "other")], "8"),
    "an owner": ([("9", "owner", None), ("7", "admin", "other")], "9"),
}


@pytest.mark.parametrize(("known", "who"), APPROVERS.values(), ids=APPROVERS)
def test_the_approver_with_the_nearest_role_is_asked(conn, place, known, who):
    make_agent(conn, "other")
    for sender, role, agent in known:
        person(conn, sender, role, agent)
    ask_sender(conn, event())
    assert [chat for chat, _ in shown(conn)] == [f"telegram {who}"]


def test_an_approver_on_the_same_channel_is_asked_first(conn, place):
    person(conn, "8", "admin", "assistant", channel="discord")
    person(conn, "9", "owner")
    ask_sender(conn, event())
    assert [chat for chat, _ in shown(conn)] == ["telegram 9"]


def test_an_approver_who_blocked_the_bot_is_skipped(conn, place):
    person(conn, "8", "admin", "assistant")
    person(conn, "9", "owner")
    make_chat(conn, "8")
    rows(conn, "UPDATE chats SET status = 'inactive' WHERE platform_id = '8'")
    ask_sender(conn, event())
    assert [chat for chat, _ in shown(conn)] == ["telegram 9"]


def test_an_approval_without_an_approver_waits_and_is_shown_to_the_first_one(conn, place):
    asked = ask_sender(conn, event())
    assert (asked.outcome, asked.said, shown(conn)) == ("held", False, [])
    person(conn, OWNER, "owner")
    with transaction(conn):
        assert requests.show_pending(conn, limit=9, now_ms=NOW) == (1, 0)
        assert requests.show_pending(conn, limit=9, now_ms=NOW) == (0, 0)
    assert [chat for chat, _ in shown(conn)] == ["telegram 1"]


def test_a_card_that_did_not_arrive_goes_to_the_next_approver(conn, place):
    person(conn, "8", "admin", "assistant")
    person(conn, "9", "owner")
    ask_sender(conn, event())
    for _ in range(3):
        rows(conn, "UPDATE responses SET status = 'dead'")
        with transaction(conn):
            requests.show_pending(conn, limit=9, now_ms=NOW)
    assert [chat for chat, _ in shown(conn)] == ["telegram 8", "telegram 9"]


def test_approvers_whom_no_card_reached_are_tried_again_an_hour_later(conn, place):
    person(conn, "8", "admin")
    ask_sender(conn, event())
    rows(conn, "UPDATE responses SET status = 'dead'")
    person(conn, "9", "admin", "assistant")
    with transaction(conn):
        assert requests.show_pending(conn, limit=9, now_ms=NOW + HOUR - 1) == (0, 0)
        assert requests.show_pending(conn, limit=9, now_ms=NOW + HOUR) == (1, 0)
    assert [chat for chat, _ in shown(conn)] == ["telegram 8", "telegram 9"]


def revoked(conn, user):
    people.revoke(conn, user.id, "admin", "assistant")


def blocked(conn, user):
    chats.set_status(conn, "telegram", user.sender_id, "inactive", now_ms=NOW)


def deleted(conn, user):
    users.delete(conn, user.id)


@pytest.mark.parametrize(("leave", "is_told"), [(revoked, True), (blocked, False), (deleted, True)])
def test_an_approver_who_lost_the_role_is_followed_by_the_next(conn, place, leave, is_told):
    person(conn, "1", "owner")
    gone = person(conn, "8", "admin", "assistant")
    ask_sender(conn, event())
    rows(conn, "UPDATE responses SET status = 'acked', acked_at = 1")
    with transaction(conn):
        assert requests.show_pending(conn, limit=9, now_ms=NOW) == (0, 0)
        leave(conn, gone)
        assert requests.show_pending(conn, limit=9, now_ms=NOW) == (1, 0)
        assert requests.show_pending(conn, limit=9, now_ms=NOW) == (0, 0)
    assert [(chat, "buttons" in content) for chat, content in shown(conn)] == [
        ("telegram 8", True),
        ("telegram 1", True),
        *([("telegram 8", False)] if is_told else []),
    ]
    told = column(conn, "SELECT message FROM responses WHERE content ->> '$.edits' = 1")
    assert ["**Another approver is asked now\\.**" in text for text in told] == [True] * is_told


def test_a_global_approval_moves_on_from_an_admin_of_one_agent(conn):
    _, session = make_session(conn)
    was = person(conn, "8", "admin")
    with transaction(conn):
        requests.ask_action(conn, session, "assistant", "create_agent", {"name": "Bob"}, policy=POLICY, now_ms=NOW)
        people.grant(conn, was.id, "admin", "assistant", by="test", now_ms=NOW)
        people.revoke(conn, was.id, "admin", None)
        assert requests.show_pending(conn, limit=9, now_ms=NOW) == (0, 0)
    person(conn, "1", "owner")
    with transaction(conn):
        assert requests.show_pending(conn, limit=9, now_ms=NOW) == (1, 0)


@pytest.mark.parametrize("is_wired", [False, True])
def test_merged_chats_ask_about_a_sender_once(conn, is_wired):
    person(conn, OWNER, "owner")
    old = make_chat(conn, is_group=True)
    make_chat(conn, "-200", is_group=True)
    if is_wired:
        wire(conn, old)
    ask = ask_sender if is_wired else ask_chat
    asked = ask(conn, event(is_group=True)).approval
    with transaction(conn):
        chats.move(conn, "telegram", "100", "-200", now_ms=NOW)
    assert ask(conn, event("2", chat="-200", is_group=True)).approval.approval_id == asked.approval_id
    assert len(held_events.of_approval(conn, asked.id)) == 2


def test_the_same_event_is_held_once(conn, place):
    person(conn, OWNER, "owner")
    first = ask_sender(conn, event())
    again = ask_sender(conn, event())
    assert (again.outcome, again.said, again.approval.id) == ("again", False, first.approval.id)
    assert column(conn, "SELECT event_key FROM held") == ["1"]
    assert len(shown(conn)) == 1


RACE = """
from shared.conversation.access import new_people
from shared.db.roster import accounts, chats
from tests.approval_requests import POLICY, event
from tests.support import NOW
with transaction(conn):
    chat = chats.find(conn, "telegram", "100")
    print(new_people.ask_sender(conn, chat, event(), "assistant", policy=POLICY, now_ms=NOW).outcome)
"""


def test_an_event_in_several_processes_at_once_is_held_once_and_asked_about_once(conn, db, place):
    person(conn, OWNER, "owner")
    assert sorted(race(db, RACE, [[]] * 4)) == ["again"] * 3 + ["held"]
    assert column(conn, "SELECT event_key FROM held") == ["1"]
    assert len(shown(conn)) == 1


def test_a_bounded_number_of_messages_of_one_sender_is_held(conn, place):
    person(conn, OWNER, "owner")
    outcomes = [ask_sender(conn, event(str(number))).outcome for number in range(MOST_HELD + 2)]
    assert outcomes == ["held"] * MOST_HELD + ["too_many_held"] * 2
    assert column(conn, "SELECT count(*) FROM held") == [MOST_HELD]
    assert ask_sender(conn, event("0")).outcome == "again"


def test_the_cards_of_two_agents_of_a_chat_follow_each_other(conn, place):
    person(conn, OWNER, "owner")
    make_agent(conn, "second")
    wire(conn, place, "second")
    assert [ask_sender(conn, event(), agent).said for agent in ("assistant", "second")] == [True, False]
    assert column(conn, "SELECT agent FROM approvals") == ["assistant", "second"]
    assert column(conn, "SELECT event_key FROM held") == ["1", "1"]


def test_a_sender_without_an_identity_causes_no_request(conn, place):
    person(conn, OWNER, "owner")
    assert ask_sender(conn, event(sender=None)).outcome == "nobody_to_ask"
    assert column(conn, "SELECT count(*) FROM approvals") == [0]


# -- for agents


def ask_action(conn, session, action="create_agent", given=None, why=""):
    with transaction(conn):
        return requests.ask_action(
            conn, session, "assistant", action, given or {"name": "Bob"}, policy=POLICY, why=why, now_ms=NOW
        )


def test_the_card_of_an_action_shows_every_argument(conn):
    person(conn, OWNER, "owner")
    _, session = make_session(conn)
    approval = ask_action(conn, session, given={"name": "Bob", "instructions": "Be brief."}, why="**Only** a test")
    assert fields(approval, "kind", "agent", "session_id", "title") == [
        "action",
        "assistant",
        session,
        "Agent assistant asks to make another agent, like itself",
    ]
    message = row(conn, "responses")["message"]
    assert '"name": "Bob"\n"instructions": "Be brief."' in message
    assert message.startswith("**Agent assistant asks to make another agent"), "whatever it says that it is"
    assert "It says why:\n\n```\n**Only** a test\n```" in message


REFUSED = {
    "an unknown action": (
        "shoot",
        {"name": "Bob"},
        UnknownName,
        "unknown action 'shoot'; known: change_instructions, .*create_agent",
    ),
    "an unknown argument": ("create_agent", {"name": "Bob", "x": "1"}, ConfigInvalid, "there is no argument 'x'"),
    "a missing argument": ("create_agent", {"instructions": ""}, ConfigInvalid, "argument 'name' is missing"),
    "a wrong argument": ("create_agent", {"name": 5}, ConfigInvalid, "'name' should be a str"),
    "an unknown chat": ("wire_chat", {"channel": "telegram", "platform_id": "9"}, NotFound, "there is no chat '9'"),
    "an unknown name": ("unwire_chat", {"destination": "x"}, NotFound, "has no chat 'x' among its destinations"),
}


@pytest.mark.parametrize(("action", "given", "error", "says"), REFUSED.values(), ids=REFUSED)
def test_an_impossible_action_is_refused_before_an_approver_is_asked(conn, action, given, error, says):
    person(conn, OWNER, "owner")
    _, session = make_session(conn)
    with pytest.raises(error, match=says):
        ask_action(conn, session, action, given)
    assert column(conn, "SELECT count(*) FROM approvals") == [0]


def test_an_admin_of_one_agent_is_not_asked_about_a_new_agent(conn, place):
    person(conn, "7", "admin", "assistant")
    person(conn, "9", "owner")
    _, session = make_session(conn)
    ask_action(conn, session)
    ask_action(conn, session, "unwire_chat", {"destination": "chat-1"})
    assert [chat for chat, _ in shown(conn)] == ["telegram 9", "telegram 7"]


def test_the_same_request_is_pending_once_and_another_beside_it(conn):
    person(conn, OWNER, "owner")
    _, session = make_session(conn)
    first = ask_action(conn, session, given={"name": "Bob", "instructions": "Be brief."})
    assert ask_action(conn, session, given={"instructions": "Be brief.", "name": "Bob"}).id == first.id
    assert ask_action(conn, session, given={"name": "Bob", "instructions": "Be kind."}).id != first.id
    assert len(shown(conn)) == 2


def test_a_session_has_a_bounded_number_of_pending_requests(conn):
    _, session = make_session(conn)
    for number in range(MOST_ASKED):
        ask_action(conn, session, given={"name": f"Bob {number}"})
    ask_action(conn, session, given={"name": "Bob 0"})
    with pytest.raises(WrongState, match="20 requests of this session wait"):
        ask_action(conn, session, given={"name": f"Bob {MOST_ASKED}"})
    assert column(conn, "SELECT count(*) FROM approvals") == [MOST_ASKED]


def test_arguments_too_long_to_read_are_refused(conn):
    _, session = make_session(conn)
    with pytest.raises(ConfigInvalid, match="too many to read on a card"):
        ask_action(conn, session, given={"name": "Bob", "instructions": "é" * 20_000})


def test_a_provisional_direct_chat_gets_the_card_too(conn, place):
    person(conn, "77", "owner", channel="discord")
    ask_sender(conn, event())
    assert [chat for chat, _ in shown(conn)] == ["discord user/77"]
    assert chats.find(conn, "discord", "user/77").opens_for == "77"
    assert people.standing(conn, "discord", "77").is_owner
