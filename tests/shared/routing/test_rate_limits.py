import pytest

from shared.channels.base import Event
from shared.core.policy import AccessPolicy
from shared.db.engine.connection import rows, transaction
from shared.routing import rate_limits
from shared.routing.rate_limits import Exceeded
from tests.support import NOW, column

SECOND = 1000


def event(sender="5", chat="100", *, is_group=True):
    return Event("message", "1", platform_id=chat, sender_id=sender, is_group=is_group)


def asked(conn, what, *, sender=0, chat=0, at=NOW, channel="telegram"):
    with transaction(conn):
        return rate_limits.count(conn, channel, what, AccessPolicy(sender_limit=sender, chat_limit=chat), now_ms=at)


def test_a_whole_minutes_limit_may_come_at_once_and_the_rest_is_refused_and_told_once(conn):
    found = [asked(conn, event(), sender=3) for _ in range(5)]
    assert found[:3] == [None] * 3
    assert found[3:] == [Exceeded("sender", NOW + 20 * SECOND), Exceeded("sender", None)]


def test_room_comes_back_evenly(conn):
    for _ in range(3):
        asked(conn, event(), sender=3)
    assert asked(conn, event(), sender=3, at=NOW + 20 * SECOND - 1) is not None
    assert asked(conn, event(), sender=3, at=NOW + 20 * SECOND) is None
    assert asked(conn, event(), sender=3, at=NOW + 21 * SECOND) is not None


def test_a_group_has_one_limit_for_all_its_senders(conn):
    found = [asked(conn, event(sender=str(number)), sender=1, chat=2) for number in range(3)]
    assert found == [None, None, Exceeded("chat", NOW + 30 * SECOND)]
    assert asked(conn, event(sender="9", chat="101"), sender=1, chat=2) is None


def test_a_sender_beyond_the_limit_uses_no_room_of_the_chat(conn):
    """One person can't silence a group."""
    found = [asked(conn, event(), sender=1, chat=2) for _ in range(9)]
    assert [exceeded.whose for exceeded in found[1:]] == ["sender"] * 8
    assert asked(conn, event(sender="6"), sender=1, chat=2) is None


def test_a_direct_chat_has_only_its_senders_limit(conn):
    found = [asked(conn, event(is_group=False), sender=2, chat=1) for _ in range(3)]
    assert found == [None, None, Exceeded("sender", NOW + 30 * SECOND)]


def test_the_same_ids_on_two_platforms_are_counted_apart(conn):
    assert asked(conn, event(), sender=1, channel="telegram") is None
    assert asked(conn, event(), sender=1, channel="discord") is None


def test_no_id_makes_the_key_of_another(conn):
    assert asked(conn, event(sender='x","y'), sender=1, chat=1) is None
    assert len(set(column(conn, "SELECT key FROM rates"))) == 2
    assert asked(conn, event(sender="x", chat="y"), sender=1, chat=1) is None


def test_a_limit_of_zero_is_no_limit_and_writes_no_row(conn):
    assert [asked(conn, event()) for _ in range(500)] == [None] * 500
    assert rows(conn, "SELECT * FROM rates") == []


def test_a_sender_without_an_identity_is_counted_against_the_chat_alone(conn):
    assert [bool(asked(conn, event(sender=None), sender=1, chat=2)) for _ in range(3)] == [False, False, True]


SENTENCES = {
    "a sender": (Exceeded("sender", NOW + 20_000), "you have room", "in 20 seconds"),
    "a chat": (Exceeded("chat", NOW + 1500), "this chat has room", "in 2 seconds"),
    "less than a second": (Exceeded("chat", NOW + 1), "this chat has room", "in a second"),
    "by now": (Exceeded("chat", NOW - 5000), "this chat has room", "in a second"),
}


@pytest.mark.parametrize(("exceeded", "who", "when"), SENTENCES.values(), ids=SENTENCES)
def test_the_sender_is_told_whose_limit_it_is_and_when_to_continue(exceeded, who, when):
    said = rate_limits.sentence(exceeded, now_ms=NOW)
    assert who in said
    assert when in said
