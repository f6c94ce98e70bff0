"""Requests about strangers of one chat: how they share its places."""

import pytest

from shared.conversation.access.requests import MOST_NEW_PEOPLE
from shared.db.engine.connection import rows, transaction
from shared.db.roster import chats
from tests.approval_requests import ask_sender, event, person, shown
from tests.support import NOW, column, make_agent, wire

OWNER = "1"
DAY = 24 * 60 * 60 * 1000
WAITING = """
    SELECT u.sender_id || ' ' || a.agent
      FROM approvals a
      JOIN users u ON u.id = a.user_id
     WHERE a.status = 'pending' ORDER BY a.id
"""
DIGESTS = "SELECT count(*) FROM responses WHERE message LIKE '**20 people of%'"


@pytest.fixture
def group(conn):
    person(conn, OWNER, "owner")
    with transaction(conn):
        chat = chats.ensure(conn, "telegram", "-7", is_group=True, sender_policy="request_approval", now_ms=NOW)
    wire(conn, chat.id)
    return chat.id


def ask(conn, number, agent="assistant", *, key=None, now_ms=NOW):
    sender = str(1000 + number)
    return ask_sender(conn, event(key or f"k{number} {agent}", sender, "-7", is_group=True), agent, now_ms)


def waiting(*numbers, agent="assistant"):
    return [f"{1000 + number} {agent}" for number in numbers]


def test_a_flood_of_strangers_in_a_group_shuts_nobody_out_and_leaves_one_card(conn, group):
    assert {ask(conn, number).outcome for number in range(500)} == {"held"}
    assert column(conn, WAITING) == waiting(0, *range(500 - MOST_NEW_PEOPLE + 1, 500))
    assert column(conn, "SELECT count(*) FROM held") == [MOST_NEW_PEOPLE]
    assert sum("buttons" in content for _, content in shown(conn)) == 1
    assert column(conn, "SELECT count(*) FROM dropped WHERE reason = 'gave_way_in_chat'") == [500 - MOST_NEW_PEOPLE]


def test_a_stranger_with_a_place_may_write_more_and_takes_none_from_others(conn, group):
    for number in range(MOST_NEW_PEOPLE):
        ask(conn, number)
    make_agent(conn, "second")
    wire(conn, group, "second")
    assert ask(conn, 5, key="more").outcome == "held"
    assert ask(conn, 5, "second").outcome == "held"
    assert column(conn, WAITING) == [*waiting(*range(MOST_NEW_PEOPLE)), *waiting(5, agent="second")]
    assert column(conn, "SELECT count(*) FROM dropped") == [0]


def test_the_person_who_has_waited_longest_gives_way_with_all_requests_and_may_ask_again(conn, group):
    make_agent(conn, "second")
    wire(conn, group, "second")
    for agent in ("assistant", "second"):  # a card is shown of the first person's request for the first agent
        for number in (0, 1):
            ask(conn, number, agent)
    for number in range(2, MOST_NEW_PEOPLE + 1):
        ask(conn, number)
    left = [*waiting(0), *waiting(0, agent="second"), *waiting(*range(2, MOST_NEW_PEOPLE + 1))]
    assert column(conn, WAITING) == left
    gone = rows(conn, "SELECT event_key, reason FROM dropped ORDER BY id")
    assert gone == [("k1 assistant", "gave_way_in_chat"), ("k1 second", "gave_way_in_chat")]
    assert ask(conn, 1, key="again").outcome == "held"
    assert column(conn, WAITING)[-1:] == waiting(1)


def test_an_approver_reads_once_a_day_that_people_give_up_their_places(conn, group):
    for number in range(MOST_NEW_PEOPLE):
        ask(conn, number)
    assert column(conn, DIGESTS) == [0]
    assert [ask(conn, 30 + number).said for number in range(5)] == [True, False, False, False, False]
    assert column(conn, DIGESTS) == [1]
    assert [ask(conn, 40 + number, now_ms=NOW + DAY).said for number in range(2)] == [True, False]
    assert column(conn, DIGESTS) == [2]
