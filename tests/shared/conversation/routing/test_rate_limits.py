import pytest

from shared.channels.base import Event
from shared.conversation.routing import rate_limits
from shared.conversation.routing.rate_limits import Exceeded
from shared.core.policy import AccessPolicy
from shared.db.engine.connection import rows, transaction
from tests.support import NOW, column

SECOND = 1000


def event(sender="5", chat="100", *, is_group=True, text="", files=()):
    return Event("message", "1", platform_id=chat, sender_id=sender, is_group=is_group, text=text, attachments=files)


def asked(conn, what, *, sender=0, chat=0, size=0, at=NOW, channel="telegram"):
    with transaction(conn):
        policy = AccessPolicy(sender_limit=sender, chat_limit=chat, sender_bytes=size)
        return rate_limits.count(conn, channel, what, policy, now_ms=at)


def test_a_whole_minutes_limit_may_come_at_once_and_the_rest_is_refused_and_told_once(conn):
    found = [asked(conn, event(), sender=3) for _ in range(5)]
    assert found[:3] == [None] * 3
    assert found[3:] == [Exceeded("sender", True, NOW + 20 * SECOND), Exceeded("sender", False)]


def test_room_comes_back_evenly(conn):
    for _ in range(3):
        asked(conn, event(), sender=3)
    assert asked(conn, event(), sender=3, at=NOW + 20 * SECOND - 1) is not None
    assert asked(conn, event(), sender=3, at=NOW + 20 * SECOND) is None
    assert asked(conn, event(), sender=3, at=NOW + 21 * SECOND) is not None


def test_a_group_has_one_limit_for_all_its_senders(conn):
    found = [asked(conn, event(sender=str(number)), sender=1, chat=2) for number in range(3)]
    assert found == [None, None, Exceeded("chat", True, NOW + 30 * SECOND)]
    assert asked(conn, event(sender="9", chat="101"), sender=1, chat=2) is None


def test_a_sender_beyond_the_limit_uses_no_room_of_the_chat(conn):
    """One person can't silence a group."""
    found = [asked(conn, event(), sender=1, chat=2) for _ in range(9)]
    assert [exceeded.limit for exceeded in found[1:]] == ["sender"] * 8
    assert asked(conn, event(sender="6"), sender=1, chat=2) is None


def test_a_direct_chat_has_only_its_senders_limit(conn):
    found = [asked(conn, event(is_group=False), sender=2, chat=1) for _ in range(3)]
    assert found == [None, None, Exceeded("sender", True, NOW + 30 * SECOND)]


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
    "a sender": (Exceeded("sender", True, NOW + 20_000), "you have room", "in 20 seconds"),
    "a chat": (Exceeded("chat", True, NOW + 1500), "this chat has room", "in 2 seconds"),
    "less than a second": (Exceeded("chat", True, NOW + 1), "this chat has room", "in a second"),
    "by now": (Exceeded("chat", True, NOW - 5000), "this chat has room", "in a second"),
    "more bytes": (Exceeded("size", True, NOW + 20_000), "more text and files than you have room for", "in 20 seconds"),
    "too large": (Exceeded("too_large", True), "larger than what one person may send", "send less of it"),
}


@pytest.mark.parametrize(("exceeded", "who", "when"), SENTENCES.values(), ids=SENTENCES)
def test_the_sender_is_told_whose_limit_it_is_and_when_to_continue(exceeded, who, when):
    said = rate_limits.sentence(exceeded, now_ms=NOW)
    assert who in said
    assert when in said


# -- the size of what a sender sends

KILOBYTE = 1000
FULL = 60 * KILOBYTE  # a minute's limit: a kilobyte comes back each second


def of(size):
    return event(text="x" * size)


def test_a_sender_has_a_limit_of_bytes_beside_that_of_messages(conn):
    assert asked(conn, of(FULL), sender=100, size=FULL) is None
    assert asked(conn, of(20 * KILOBYTE), sender=100, size=FULL) == Exceeded("size", True, NOW + 20 * SECOND)
    assert asked(conn, of(1), sender=100, size=FULL) == Exceeded("size", False)
    assert asked(conn, of(1), sender=100, size=FULL, at=NOW + 1) is None
    assert asked(conn, of(20 * KILOBYTE), sender=100, size=FULL, at=NOW + 20 * SECOND) == Exceeded("size", False)
    assert asked(conn, of(20 * KILOBYTE), sender=100, size=FULL, at=NOW + 20 * SECOND + 1) is None
    assert asked(conn, event(sender="6", text="x"), sender=100, size=FULL) is None


def test_the_number_of_messages_is_limited_as_before(conn):
    found = [asked(conn, of(1), sender=2, size=FULL) for _ in range(4)]
    assert found == [None, None, Exceeded("sender", True, NOW + 30 * SECOND), Exceeded("sender", False)]


def test_what_is_refused_for_its_size_uses_up_no_message_and_no_room_of_the_chat(conn):
    asked(conn, of(FULL), sender=2, chat=2, size=FULL)
    for _ in range(9):
        assert asked(conn, of(FULL), sender=2, chat=2, size=FULL).limit == "size"
    assert asked(conn, of(0), sender=2, chat=2, size=FULL) is None
    assert asked(conn, of(0), sender=2, chat=2, size=FULL).limit == "sender"


@pytest.mark.parametrize("known", [False, True])
def test_a_message_larger_than_a_minute_is_refused_and_told_once(conn, known):
    if known:
        asked(conn, of(1), sender=9, size=FULL)
    found = [asked(conn, of(FULL + 1), sender=9, size=FULL, at=NOW + at) for at in (0, 1, 60_000)]
    assert found == [Exceeded("too_large", is_told) for is_told in (True, False, True)]
    assert asked(conn, of(FULL - 1000), sender=9, size=FULL, at=NOW + 60_000) is None


def test_short_texts_take_their_bytes_and_no_more(conn):
    """Less than a millisecond of the limit each."""
    found = [asked(conn, of(10), size=100_000_000) for _ in range(500)]
    assert found == [None] * 500
    assert rows(conn, "SELECT size_full_at_us - 1000 * :now FROM rates", {"now": NOW}) == [(500 * 6,)]


SIZES = {
    "a text": (event(text="é€"), 5),
    "half a character": (event(text="\ud83d"), 1),
    "files": (event(text="abc", files=({"kind": "file", "size": 40}, {"kind": "photo", "size": 2})), 45),
    "a file of unknown size": (event(files=({"kind": "file"}, {"kind": "file", "size": None})), 0),
    "a file that can't be downloaded": (event(files=({"kind": "video", "size": 9**9, "downloadable": False},)), 0),
    "nonsense": (event(files=({"kind": "file", "size": -5}, {"kind": "file", "size": "9"})), 0),
}


@pytest.mark.parametrize(("what", "size"), SIZES.values(), ids=SIZES)
def test_the_size_of_an_event(what, size):
    assert rate_limits.size_of(what) == size
