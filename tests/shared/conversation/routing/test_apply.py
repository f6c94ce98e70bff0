import pytest

from shared.channels.base import Event
from shared.conversation.access import people
from shared.conversation.routing.apply import Routed, apply, sum_of
from shared.conversation.routing.effects import (
    Drop,
    HoldForChat,
    HoldForSender,
    Isolated,
    Once,
    Say,
    StoreMessage,
    Wire,
    WithinLimits,
    WithinRate,
)
from shared.conversation.routing.recipients import Recipient
from shared.core.policy import AccessPolicy
from shared.db.access import rates, users
from shared.db.engine.connection import rows, transaction
from shared.db.roster import chats, wirings
from tests.support import NOW, column, dump, make_chat, wire

POLICY = AccessPolicy(new_chats="ask", sender_limit=2, chat_limit=0, sender_bytes=0)
SAY = Say("hello")


def event(key="1", **fields):
    values = {"platform_id": "100", "sender": "Ana", "sender_id": "5", "text": "hi", "is_mention": True}
    return Event(**{"kind": "message", "event_key": key, **values, **fields})


def do(conn, *effects, what=None, at=NOW):
    with transaction(conn):
        return apply(conn, "telegram", what or event(), effects, policy=POLICY, now_ms=at)


def said(conn):
    return column(conn, "SELECT message FROM responses ORDER BY id")


def store(conn):
    """The effect that stores a message for the agent of chat 100."""
    wired = wirings.find_chat(conn, "telegram", "100").wirings[0]
    return StoreMessage(Recipient(wired, trigger=True, text="hi"))


@pytest.fixture
def chat(conn):
    chat_id = make_chat(conn)
    wire(conn, chat_id)
    return chat_id


def test_no_effect_does_nothing(conn, chat):
    before = dump(conn)
    assert do(conn) == Routed()
    assert dump(conn) == before


def test_a_message_is_stored_once_and_then_a_duplicate(conn, chat):
    assert [do(conn, store(conn)) for _ in range(2)] == [Routed(stored=1), Routed(duplicates=1)]


def test_a_drop_is_recorded_once_and_what_depends_on_it_is_applied_once(conn, chat):
    effect = Drop("sender_unknown:x", if_new=(SAY,))
    assert [do(conn, effect) for _ in range(2)] == [
        Routed(dropped="sender_unknown:x", said=True),
        Routed(dropped="sender_unknown:x"),
    ]
    assert rows(conn, "SELECT reason, detail FROM dropped") == [("sender_unknown", "x")]
    assert said(conn) == ["hello"]


def test_of_several_drops_the_first_is_reported_and_recorded(conn, chat):
    assert do(conn, Drop("first"), Drop("second")).dropped == "first"
    assert column(conn, "SELECT reason FROM dropped") == ["first"]


def test_once_reports_no_drop_and_repeats_nothing(conn, chat):
    assert [do(conn, Once("command_done:clear", (SAY,))) for _ in range(2)] == [Routed(said=True), Routed()]
    assert said(conn) == ["hello"]


def test_nothing_is_said_in_an_unknown_chat_unless_the_effect_creates_it(conn):
    assert do(conn, SAY) == Routed()
    assert chats.find(conn, "telegram", "100") is None
    assert do(conn, Say("hello", creates_chat=True)).said
    assert chats.find(conn, "telegram", "100").sender_policy == "request_approval"


def test_beyond_the_limit_the_event_is_dropped_instead_and_the_sender_told_once(conn, chat):
    found = [do(conn, WithinLimits((store(conn),)), what=event(str(number))) for number in range(4)]
    assert [each.stored for each in found] == [1, 1, 0, 0]
    assert [(each.dropped, each.said) for each in found[2:]] == [
        ("rate_limited:sender", True),
        ("rate_limited:sender", False),
    ]


def test_beyond_the_limit_a_redelivery_is_still_a_duplicate(conn, chat):
    for number in range(3):
        do(conn, WithinLimits((store(conn),)), what=event(str(number)))
    assert do(conn, WithinLimits((store(conn),)), what=event("0")) == Routed(duplicates=1)


def test_a_rate_stops_its_effects_without_a_drop(conn, chat):
    effect = WithinRate(rates.key("test"), 1, 1, (SAY,))
    assert [do(conn, effect) for _ in range(2)] == [Routed(said=True), Routed()]


def test_an_isolated_effect_that_fails_is_undone_and_dropped_and_the_rest_is_applied(conn, chat):
    rows(
        conn,
        """
        CREATE TEMP TRIGGER breaks BEFORE INSERT ON messages
        BEGIN SELECT RAISE(ABORT, 'broken'); END
        """,
    )
    assert do(conn, Isolated("assistant", store(conn)), SAY) == Routed(dropped="wiring_failed:assistant", said=True)
    assert column(conn, "SELECT count(*) FROM sessions") == [0]


def test_a_held_event_says_that_it_waits_after_all_effects_and_once(conn, chat):
    with transaction(conn):
        owner = users.ensure(conn, "telegram", "9", name="Bo", now_ms=NOW)
        people.grant(conn, owner.id, "owner", None, by="test", now_ms=NOW)
    assert do(conn, HoldForSender("assistant"), SAY) == Routed(held=1, said=True)
    assert said(conn)[1:] == ["hello", said(conn)[-1]]
    assert "waits for the decision" in said(conn)[-1]
    assert do(conn, HoldForSender("assistant", is_told=False), what=event("2", sender_id="6")) == Routed(held=1)


def test_a_chat_that_nobody_can_be_asked_about_is_not_created(conn):
    assert do(conn, HoldForChat()) == Routed(dropped="not_wired")
    assert column(conn, "SELECT count(*) FROM chats") == [0]


def test_a_wiring_is_created_with_its_chat(conn):
    assert do(conn, Wire("assistant")) == Routed()
    assert [each.agent for each in wirings.find_chat(conn, "telegram", "100").wirings] == ["assistant"]


def test_the_outcomes_of_several_events_add_up_and_the_first_reason_stays():
    several = [
        Routed(stored=2, gathered=1),
        Routed(dropped="empty", held=1, changed=3),
        Routed(stored=1, dropped="no_chat", said=True, duplicates=4),
    ]
    assert sum_of(several) == Routed(3, 4, 1, "empty", True, 1, 3)
