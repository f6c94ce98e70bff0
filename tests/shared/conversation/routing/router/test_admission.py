"""Who may talk to an agent, and what was held until that was decided."""

import pytest

from shared.conversation.routing import router
from shared.conversation.routing.apply import Routed
from shared.db.engine.connection import rows, transaction
from shared.db.roster import sticky_threads
from tests.shared.conversation.routing.router.kit import (
    ACCESS,
    EVERY_ROLE,
    HELD,
    IN_THREAD,
    NOBODY,
    OPEN,
    SECRET,
    UNKNOWN,
    YES,
    asked,
    become,
    event,
    make_chat,
    reasons,
    store,
    wire,
)
from tests.support import NOW, column, dump

CASES = [
    (policy, scope, role, expected)
    for (policy, scope), outcomes in ACCESS.items()
    for role, expected in zip(EVERY_ROLE, outcomes, strict=True)
]


@pytest.mark.parametrize(("policy", "scope", "role", "expected"), CASES)
def test_who_may_talk_to_an_agent(conn, policy, scope, role, expected):
    wire(conn, make_chat(conn, policy=policy), sender_scope=scope)
    if role != NOBODY:
        become(conn, role)
    found = store(conn, event())
    assert (YES if found.stored else HELD if found.held else found.dropped) == expected
    assert asked(conn) == (["assistant"] if expected == YES else [])
    assert (SECRET in str(dump(conn))) is (expected in (YES, HELD))


@pytest.mark.parametrize(("policy", "scope", "role", "expected"), CASES)
def test_only_messages_of_admitted_senders_become_context(conn, policy, scope, role, expected):
    """No approver is asked about a sender who asked for nothing, and nothing of the text is stored anywhere."""
    chat = make_chat(conn, policy=policy, is_group=True)
    wire(conn, chat, sender_scope=scope, ignored_message_policy="accumulate")
    if role != NOBODY:
        become(conn, role)
    found = store(conn, event(is_mention=False, is_group=True))
    is_context = expected == YES
    assert (found.stored, found.held, found.dropped) == (
        (1, 0, None) if is_context else (0, 0, UNKNOWN if expected == HELD else expected)
    )
    assert column(conn, "SELECT count(*) FROM approvals") == [0]
    assert (SECRET in str(dump(conn))) is is_context


def test_an_identity_belongs_to_one_channel_and_a_name_never_replaces_it(conn):
    become(conn, "owner", "5", "discord")
    wire(conn, make_chat(conn, policy="strict"))
    for what in (event(), event(sender="owner", sender_id="discord:5"), event(sender="5", sender_id=None)):
        assert store(conn, what).dropped == "sender_unknown"


def test_two_agents_admit_the_same_sender_independently(conn):
    chat = make_chat(conn, policy="request_approval")
    wire(conn, chat)
    wire(conn, chat, "second")
    wire(conn, chat, "third")
    become(conn, "member", agent="second")
    become(conn, "refused", agent="third")
    assert store(conn, event()) == Routed(stored=1, held=1, dropped="sender_refused", said=True)
    assert asked(conn) == ["second"]
    assert reasons(conn) == [("sender_refused", "")]


def test_a_flood_of_strangers_leaves_a_bounded_number_of_approvals_and_few_cards(conn):
    become(conn, "owner", "9")
    wire(conn, make_chat(conn, policy="request_approval", is_group=True))
    for number in range(60):
        store(conn, event(sender_id=f"1{number}", event_key=str(number), is_group=True), at=NOW + number)
    assert column(conn, "SELECT count(*) FROM approvals WHERE status = 'pending'") == [20]
    assert column(conn, "SELECT count(*) FROM responses WHERE platform_id = '9'") == [2], "and the sentence of a day"
    assert column(conn, "SELECT count(*) FROM dropped WHERE reason = 'gave_way_in_chat'") == [40]


def test_a_held_event_is_stored_once_for_its_agent(conn):
    chat = make_chat(conn, policy="strict", is_group=True)
    wired = wire(conn, chat, engage_mode="mention-sticky", session_mode="per-thread")
    wire(conn, chat, "second")
    held = event("@assistant hi", **IN_THREAD)
    with transaction(conn):
        given = [router.route_held(conn, "telegram", held, "assistant", OPEN, now_ms=NOW) for _ in range(2)]
    assert given == [Routed(stored=1), Routed(duplicates=1)]
    assert rows(conn, "SELECT agent, message, thread_id FROM messages") == [("assistant", "hi", "7")]
    assert sticky_threads.has(conn, wired.id, "7")


@pytest.mark.parametrize("what", [event(platform_id="999"), event()], ids=["no such chat", "no longer wired"])
def test_a_held_event_is_not_stored_where_its_agent_is_no_longer_wired(conn, what):
    make_chat(conn)
    with transaction(conn):
        assert router.route_held(conn, "telegram", what, "assistant", OPEN, now_ms=NOW) == Routed()
    assert column(conn, "SELECT id FROM messages") == []
