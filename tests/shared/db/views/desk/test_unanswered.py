"""What got no answer is told with the reason, whether it was dropped, is held, or asked no agent."""

import pytest

from shared.db.access import dropped
from shared.db.engine.connection import transaction
from shared.db.engine.named_rows import NEWEST
from shared.db.views.desk import unanswered
from tests.approval_requests import hold_many
from tests.support import NOW, make_chat, put


def read(conn, what=None, code=None, before_ms=NEWEST):
    found = unanswered.read(conn, what=what, code=code, before_ms=before_ms, limit=9, now_ms=NOW + 99)
    return [(each["what"], each["code"]) for each in found]


def drop(conn, reason, at_ms, chat="100"):
    with transaction(conn):
        dropped.record(conn, channel="telegram", reason=reason, platform_id=chat, sender_id="5", now_ms=at_ms)


def test_each_row_says_why_and_leads_to_its_chat(conn):
    chat = make_chat(conn)
    drop(conn, "rate_limited", NOW)
    (found,) = unanswered.read(conn, what=None, code=None, before_ms=NEWEST, limit=9, now_ms=NOW)
    assert (found["chatId"], found["id"], found["state"]) == (chat, "dropped_1", "dropped")
    assert found["reason"].startswith("It was more than the limits of a minute allow")


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


@pytest.mark.parametrize(("what", "make"), [("held", hold_many), ("dropped", drop_many)])
def test_each_page_goes_on_before_the_one_before_it(conn, what, make):
    make_chat(conn)
    make(conn, 5)
    found, before_ms = [], NEWEST
    for _ in range(3):
        page = unanswered.read(conn, what=what, code=None, before_ms=before_ms, limit=2, now_ms=NOW + 99)
        found += [each["at"] - NOW for each in page]
        before_ms = page[-1]["at"]
    assert found == [4, 3, 2, 1, 0]
