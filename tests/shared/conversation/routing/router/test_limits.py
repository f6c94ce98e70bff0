"""How much a person, and a group, may send."""

from dataclasses import replace

import pytest

from shared.conversation.routing.apply import Routed
from shared.db.queue import messages
from tests.shared.conversation.routing.router.kit import (
    ASK,
    OPEN,
    WIRE,
    become,
    event,
    make_chat,
    reasons,
    said,
    store,
    wire,
)
from tests.support import NOW, column, plan

LIMITED = replace(OPEN, sender_limit=3)


def test_messages_beyond_the_limit_are_refused_and_the_sender_is_told_once(conn):
    wire(conn, make_chat(conn))
    found = [store(conn, event(event_key=str(number)), LIMITED) for number in range(6)]
    assert [each.stored for each in found] == [1, 1, 1, 0, 0, 0]
    assert [each.dropped for each in found[3:]] == ["rate_limited:sender"] * 3
    assert [each.said for each in found[3:]] == [True, False, False]
    assert ["in 20 seconds" in text for text in said(conn)] == [True]
    assert store(conn, event(event_key="7"), LIMITED, at=NOW + 20_000).stored == 1


def test_a_redelivery_of_a_refused_message_is_not_answered_again(conn):
    wire(conn, make_chat(conn))
    found = [store(conn, event(event_key=str(number)), LIMITED).said for number in range(4)]
    later = [store(conn, event(event_key=f"later {number}"), LIMITED, at=NOW + 60_000).said for number in range(3)]
    assert found + later == [False] * 3 + [True] + [False] * 3
    again = store(conn, event(event_key="3"), LIMITED, at=NOW + 60_001)
    assert (again.dropped, again.said) == ("rate_limited:sender", False)


@pytest.mark.parametrize("later_ms", [0, 1, 20_000, 3_600_000])
def test_a_refused_message_stays_refused_however_much_room_there_is_when_it_comes_again(conn, later_ms):
    """Its sender was told that it was not read."""
    wire(conn, make_chat(conn))
    for number in range(4):
        store(conn, event(event_key=str(number)), LIMITED)
    with_room = replace(OPEN, chat_limit=9)
    again = store(conn, event(event_key="3"), with_room, at=NOW + later_ms)
    assert again == Routed(dropped="rate_limited:sender")
    assert column(conn, "SELECT count(*) FROM messages") == [3]
    assert store(conn, event(event_key="new"), with_room, at=NOW + later_ms).stored == 1


def test_a_redelivery_of_a_stored_message_is_a_duplicate_even_beyond_the_limit(conn):
    wire(conn, make_chat(conn))
    for number in range(4):
        store(conn, event(event_key=str(number)), LIMITED)
    assert store(conn, event(event_key="0"), LIMITED) == Routed(duplicates=1)


def test_a_stored_event_is_found_by_an_index(conn):
    lines = [line for line in plan(conn, messages.HAS_EVENT, channel="telegram", event_key="1") if "SEARCH" in line]
    assert len(lines) == 2
    line = lines[0]
    assert "COVERING INDEX messages_event" in line


def test_a_group_hears_nothing_about_refused_context(conn):
    wire(conn, make_chat(conn, is_group=True), ignored_message_policy="accumulate")
    found = [store(conn, event(event_key=str(number), is_group=True, is_mention=False), LIMITED) for number in range(5)]
    assert [each.stored for each in found] == [1, 1, 1, 0, 0]
    assert said(conn) == []


def test_a_message_without_recipients_is_not_counted(conn):
    wire(conn, make_chat(conn, is_group=True))
    for number in range(9):
        store(conn, event(event_key=str(number), is_group=True, is_mention=False), LIMITED)
    assert column(conn, "SELECT count(*) FROM rates") == [0]


@pytest.mark.parametrize("text", ["/clear", "/help", "/anything"])
def test_commands_count_against_the_limit(conn, text):
    wire(conn, make_chat(conn))
    found = [store(conn, event(text, event_key=str(number)), LIMITED).dropped for number in range(4)]
    assert found[3] == "rate_limited:sender"
    assert found[2] != "rate_limited:sender"


def test_a_new_chat_is_limited_before_an_approver_is_asked(conn):
    become(conn, "owner", "9")
    policy = replace(ASK, sender_limit=2)
    found = [store(conn, event(platform_id=str(number), event_key=str(number)), policy) for number in range(4)]
    assert [each.held for each in found] == [1, 1, 0, 0]
    assert column(conn, "SELECT count(*) FROM chats WHERE platform_id IN ('2', '3')") == [0]


@pytest.mark.parametrize("sender_policy", ["strict", "request_approval"])
def test_refused_senders_use_up_no_room_of_admitted_ones(conn, sender_policy):
    wire(conn, make_chat(conn, policy=sender_policy, is_group=True))
    become(conn, "member", "9")
    policy = replace(OPEN, sender_limit=2, chat_limit=4)
    for number in range(12):
        store(conn, event(event_key=str(number), sender_id=f"s{number // 3}", is_group=True), policy)
    if sender_policy == "strict":
        assert said(conn) == []
    assert store(conn, event(event_key="me", sender_id="9", is_group=True), policy).stored == 1


def test_more_bytes_than_the_limit_of_a_minute_are_dropped_with_a_reason_and_said_once(conn):
    wire(conn, make_chat(conn))
    policy = replace(OPEN, sender_bytes=100)
    sizes = (("1", 60), ("2", 60), ("3", 60), ("4", 101))
    found = [store(conn, event("x" * size, event_key=key), policy) for key, size in sizes]
    assert [each.dropped for each in found] == [
        *(None, "rate_limited:size", "rate_limited:size", "rate_limited:too_large"),
    ]
    assert [each.said for each in found] == [False, True, False, False]
    assert reasons(conn) == [("rate_limited", "size")] * 2 + [("rate_limited", "too_large")]
    assert store(conn, event("x" * 60), policy) == Routed(duplicates=1), "a redelivery of what was stored"


def test_the_message_that_wires_a_chat_counts_once(conn):
    policy = replace(WIRE, sender_limit=2)
    found = [store(conn, event(platform_id="7", event_key=str(number)), policy).stored for number in range(3)]
    assert found == [1, 1, 0]
