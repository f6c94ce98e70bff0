"""What got no answer is told with the reason, whether it was dropped, is held, or asked no agent."""

import pytest

from shared.db.access import dropped
from shared.db.engine.connection import transaction
from shared.db.engine.named_rows import NEWEST
from shared.db.views.desk import unanswered
from tests.approval_requests import hold_many
from tests.support import NOW, make_chat, put


def listed(conn, *, what=None, code=None, cursor=None, before_ms=NEWEST, limit=9):
    return unanswered.read(conn, what=what, code=code, cursor=cursor, before_ms=before_ms, limit=limit, now_ms=NOW + 99)


def read(conn, **wanted):
    return [(each["what"], each["code"]) for each in listed(conn, **wanted)]


def drop(conn, reason, at_ms, chat="100"):
    with transaction(conn):
        dropped.record(conn, channel="telegram", reason=reason, platform_id=chat, sender_id="5", now_ms=at_ms)


def test_each_row_says_why_and_leads_to_its_chat(conn):
    chat = make_chat(conn)
    drop(conn, "rate_limited", NOW)
    (found,) = listed(conn)
    assert (found["chatId"], found["id"], found["state"]) == (chat, "dropped_1", "dropped")
    assert found["reason"].startswith("It was over the limit per minute")


def test_a_message_that_asked_no_agent_stands_between_those_that_were_dropped(conn):
    drop(conn, "not_wired", NOW, chat="200")
    put(conn, "by the way", trigger=False, now_ms=NOW + 1)
    put(conn, "a question", now_ms=NOW + 2)
    drop(conn, "rate_limited", NOW + 3)
    assert read(conn) == [("dropped", "rate_limited"), ("ignored", "context"), ("dropped", "not_wired")]
    assert read(conn, before_ms=NOW + 3) == [("ignored", "context"), ("dropped", "not_wired")]
    assert read(conn, before_ms=NOW + 1) == [("dropped", "not_wired")]
    assert read(conn, what="ignored") == [("ignored", "context")]
    assert read(conn, what="dropped") == [("dropped", "rate_limited"), ("dropped", "not_wired")]
    assert read(conn, code="not_wired") == [("dropped", "not_wired")]
    assert read(conn, what="held") == []


def drop_many(conn, count):
    for number in range(count):
        drop(conn, "rate_limited", NOW + number)


def walk(conn, **wanted):
    """The pages of two, to the end."""
    found, cursor = [], None
    while page := listed(conn, cursor=cursor, limit=2, **wanted):
        found += page
        cursor = page[-1]["cursor"]
    return found


@pytest.mark.parametrize(("what", "make"), [("held", hold_many), ("dropped", drop_many)])
def test_each_page_goes_on_before_the_one_before_it(conn, what, make):
    make_chat(conn)
    make(conn, 5)
    assert [each["at"] - NOW for each in walk(conn, what=what)] == [4, 3, 2, 1, 0]


def test_rows_of_one_millisecond_are_each_on_one_page(conn):
    make_chat(conn)
    hold_many(conn, 3)
    for _ in range(3):
        drop(conn, "rate_limited", NOW)
        put(conn, "by the way", trigger=False)
    with transaction(conn):
        conn.execute("UPDATE held SET created_at = :now", {"now": NOW})
    found = [each["id"] for each in walk(conn)]
    assert len(found) == len(set(found)) == 9
    assert sorted(found) == sorted(each["id"] for each in listed(conn))


def test_what_comes_in_while_somebody_turns_the_pages_is_on_none_of_the_later_ones(conn):
    make_chat(conn)
    drop_many(conn, 3)
    page = listed(conn, limit=2)
    put(conn, "by the way", trigger=False)
    assert [each["at"] - NOW for each in listed(conn, cursor=page[-1]["cursor"])] == [0]
