"""The ids that people see: each is drawn by chance, once, and found again; each arrival is announced once."""

import re
import shutil

import apsw
import pytest

from shared.core import ids
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.queue import messages
from shared.db.queue.messages import NewMessage
from shared.queue import series
from tests.support import NOW, column, draw, enqueue_all, make_session, put

# -- ids


def ids_of(conn):
    return column(conn, "SELECT message_id FROM messages ORDER BY id")


def new(conn, **fields):
    _, session = make_session(conn)
    return NewMessage("telegram", "telegram", sender="A", agent="assistant", session_id=session, **fields)


def test_a_message_is_found_by_the_id_that_people_see(conn):
    first, second = put(conn), put(conn, given_id="order-7")
    assert messages.find(conn, messages.id_of(conn, first)) == first
    assert messages.find(conn, "order-7") == second
    for nobody in ("", "order-8", "telegram_00000000", "telegram_", "_", "ORDER-7", "order-7 "):
        assert messages.find(conn, nobody) is None


def test_an_id_has_the_prefix_of_its_message(conn):
    put(conn, id_prefix="chatroom_batch")
    (made,) = ids_of(conn)
    assert re.fullmatch("chatroom_batch_[0-9a-z]{8}", made)


def test_nobody_can_tell_an_id_from_the_others(conn, tmp_path, fresh_database):
    """Two databases with the same rows share no id, and neither do two rows in a row."""
    shutil.copy(fresh_database, tmp_path / "other.db")
    other = open_connection(tmp_path / "other.db")
    for each in (conn, other):
        for number in range(20):
            put(each, event_key=str(number))
    assert len({*ids_of(conn), *ids_of(other)}) == 40
    other.close()


def test_a_handle_never_names_another_message_after_the_newest_rows_were_lost(conn, db, tmp_path):
    """A disk is lost, and the file goes on from an older copy: the row's number is used again, its id is not."""
    put(conn, "kept")
    rows(conn, "VACUUM INTO ?", (str(tmp_path / "copy.db"),))
    lost = messages.id_of(conn, put(conn, "lost"))
    restored = open_connection(tmp_path / "copy.db")
    assert put(restored, "of somebody else") == 2
    assert messages.find(restored, lost) is None
    restored.close()


def test_an_id_that_is_drawn_twice_is_drawn_again(conn, monkeypatch):
    draw(monkeypatch, "ssssssss", "aaaaa", "aaaaa", "bbbbb")  # the first is the session's
    assert (put(conn), put(conn)) == (1, 2)
    assert ids_of(conn) == ["telegram_aaaaaaaa", "telegram_aaabbbbb"]


def test_the_same_where_the_message_is_a_platforms_event(conn, monkeypatch):
    draw(monkeypatch, "ssssssss", "aaaaa", "bbbbb", "ccccc")
    assert [put(conn, event_key="1"), put(conn, event_key="2"), put(conn, event_key="2")] == [1, 2, None]
    assert ids_of(conn) == ["telegram_aaaaaaaa", "telegram_aaabbbbb"]


def test_the_same_for_the_next_of_a_series(conn, monkeypatch):
    put(conn, given_id="task_aaaaaaaa")
    recurring = put(conn, recurrence="0 9 * * *", timezone="UTC", series_id="series_1", scheduled_at=NOW)
    with transaction(conn):
        messages.cancel(conn, recurring, reason="unwanted", now_ms=NOW)
    draw(monkeypatch, "aaaaaaaa", "bbbbbbbb")
    with transaction(conn):
        series.advance_messages(conn, now_ms=NOW)
    assert ids_of(conn)[-1] == "task_bbbbbbbb"
    assert column(conn, "SELECT recurrence FROM messages WHERE message_id = 'task_bbbbbbbb'") == ["0 9 * * *"]


def test_no_message_takes_the_id_of_another(conn):
    first = put(conn)
    with pytest.raises(apsw.ConstraintError, match="another message has the id"):
        put(conn, given_id=messages.id_of(conn, first))
    assert column(conn, "SELECT id FROM messages") == [first]


def test_a_database_without_chance_says_so_and_stores_nothing(conn, monkeypatch):
    """Twenty times the same id can't be chance: the operating system's randomness is broken."""
    put(conn, given_id="telegram_aaaaaaaa")
    draw(monkeypatch, *["aaaaa"] * ids.DRAWS)
    with pytest.raises(apsw.ConstraintError, match="telegram_"):
        put(conn)
    assert ids_of(conn) == ["telegram_aaaaaaaa"]


# -- the events of arrival


def announce(conn):
    with transaction(conn):
        return messages.announce(conn)


def test_each_arrival_is_announced_once_in_order_with_its_own_instant(conn):
    assert not messages.is_unannounced(conn)
    assert announce(conn) == 0
    put(conn, now_ms=NOW + 5)
    put(conn, given_id="order-7", process_after=NOW + 9, chat="200")
    assert messages.is_unannounced(conn)
    assert announce(conn) == 2
    assert not messages.is_unannounced(conn)
    assert announce(conn) == 0
    assert rows(conn, "SELECT type, message_id, agent, channel, session_id, data, created_at FROM events") == [
        ("message_received", messages.id_of(conn, 1), "assistant", "telegram", 1, "{}", NOW + 5),
        ("message_received", "order-7", "assistant", "telegram", 2, f'{{"process_after":{NOW + 9}}}', NOW),
    ]


def test_many_arrivals_are_announced_in_bounded_steps(conn):
    _, session = make_session(conn)
    new = NewMessage(sender="A", agent="assistant", session_id=session)
    with transaction(conn):
        enqueue_all(conn, [new] * 1201, now_ms=NOW)
    assert [announce(conn) for _ in range(4)] == [500, 500, 201, 0]
    assert column(conn, "SELECT message_id FROM events ORDER BY id") == column(
        conn, "SELECT message_id FROM messages ORDER BY id"
    )


def test_a_rolled_back_arrival_is_not_announced_and_its_id_is_not_lost(conn):
    announce(conn)
    _, session = make_session(conn)

    def failing():
        with transaction(conn):
            messages.enqueue(conn, NewMessage(sender="A", agent="assistant", session_id=session), now_ms=NOW)
            messages.announce(conn)
            raise LookupError

    with pytest.raises(LookupError):
        failing()
    assert not messages.is_unannounced(conn)
    assert column(conn, "SELECT id FROM events") == []
