import pytest

from shared.db.access import albums
from shared.db.engine.connection import rows, transaction
from tests.support import NOW, column, plan


def add(conn, number, *, key="g", at=NOW, most=10):
    with transaction(conn):
        albums.add(
            conn, channel="telegram", platform_id="100", group_key=key, sender_id="5", event_key=f"e{number}",
            platform_message_id=str(number), event="{}", most=most, due_ms=at + 1_000, now_ms=at,
        )  # fmt: skip


def join(conn, album, at=NOW + 1_000):
    with transaction(conn):
        return albums.join(conn, album, platform_message_id="1", is_mention=True, now_ms=at)


def test_an_album_is_joined_once(conn):
    add(conn, 1)
    (album,) = albums.due(conn, now_ms=NOW + 1_000)
    assert [join(conn, album.id), join(conn, album.id)] == [True, False]
    assert albums.due(conn, now_ms=NOW + 9_000) == []
    assert albums.pieces(conn, album.id) == []
    assert albums.next_due(conn) is None
    assert albums.message_of(conn, "telegram", "100", "1") == "1"
    assert albums.message_of(conn, "discord", "100", "1") is None


def test_pieces_of_one_key_gather_in_one_album_until_it_is_joined(conn):
    add(conn, 1)
    add(conn, 2, at=NOW + 500)
    (album,) = albums.due(conn, now_ms=NOW + 1_500)
    assert [each.platform_message_id for each in albums.pieces(conn, album.id)] == ["1", "2"]
    join(conn, album.id)
    add(conn, 3, at=NOW + 5_000)
    (late,) = albums.due(conn, now_ms=NOW + 6_000)
    assert (late.id != album.id, late.is_mention, album.is_mention) == (True, True, False)


def test_the_next_album_is_due_a_second_after_its_last_piece_or_at_once_when_it_is_full(conn):
    add(conn, 1, at=NOW)
    add(conn, 2, key="h", at=NOW - 300)
    assert albums.next_due(conn) == NOW + 700
    add(conn, 3, key="g", at=NOW, most=2)
    assert albums.next_due(conn) == NOW


def test_a_piece_is_known_by_its_key_and_found_while_it_waits(conn):
    add(conn, 1)
    assert (albums.has_piece(conn, "telegram", "e1"), albums.has_piece(conn, "discord", "e1")) == (True, False)
    waiting = albums.gathered(conn, "telegram", "100", "1")
    with transaction(conn):
        albums.change(conn, waiting.id, None)
    assert albums.gathered(conn, "telegram", "100", "1") is None
    assert albums.has_piece(conn, "telegram", "e1")


def test_joined_albums_are_forgotten_with_their_pieces_in_bounded_batches(conn):
    for number in range(3):
        add(conn, number, key=str(number))
    for album in albums.due(conn, now_ms=NOW + 1_000)[:2]:
        join(conn, album.id)
    with transaction(conn):
        assert albums.prune(conn, older_than_ms=NOW + 1, limit=1) == 1
        assert albums.prune(conn, older_than_ms=NOW + 1, limit=9) == 1
        assert albums.prune(conn, older_than_ms=NOW + 1, limit=9) == 0
    assert column(conn, "SELECT event_key FROM album_pieces") == ["e2"]


@pytest.mark.parametrize(
    ("sql", "index"),
    [(albums.DUE, "albums_due"), (albums.OF_SENDER, "albums_gathering"), (albums.NEXT_DUE, "albums_due"),
     (albums.GATHERED, "album_pieces_by_message"), (albums.FIRST, "album_pieces_by_message")],
)  # fmt: skip
def test_albums_are_read_by_indexes(conn, sql, index):
    names = ("now", "limit", "channel", "platform_id", "sender_id", "message")
    lines = plan(conn, sql, **{name: "1" for name in names if f":{name}" in sql})
    assert any(index in line for line in lines), lines
    assert not any(line.startswith("SCAN p") for line in lines)


def test_a_state_without_its_instant_is_refused(conn):
    add(conn, 1)
    with pytest.raises(Exception, match="CHECK"):
        rows(conn, "UPDATE albums SET status = 'joined'")
