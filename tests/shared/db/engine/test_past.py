"""The mark of a copy of the past."""

from dataclasses import replace

import apsw
import pytest

from shared.db.engine import meta, past
from shared.db.engine.connection import transaction
from shared.db.engine.past import Past
from tests.support import make_session

MADE = Past("s3://b/p", "2026-11-23T01:00:41Z", "0000000000000011", "2026-11-23T01:00:36Z", "epoch_a", "epoch_a", 27, 3)


def test_a_mark_is_read_as_it_was_written_and_stays(conn, db):
    assert (past.read(conn), past.of_file(db)) == (None, None)
    with transaction(conn):
        past.mark(conn, MADE)
    assert (past.read(conn), past.of_file(db)) == (MADE, MADE)
    with pytest.raises(apsw.ConstraintError), transaction(conn):
        past.mark(conn, replace(MADE, txid="0000000000000012"))
    assert past.read(conn) == MADE


def test_the_instant_of_a_mark_is_the_end_of_the_second_that_it_names():
    assert MADE.at_ms == 1_795_395_636_999
    assert replace(MADE, timestamp="2026-11-23T01:00:36.250Z").at_ms == 1_795_395_636_250
    assert replace(MADE, timestamp="an unknown instant").at_ms is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"replica": "s3://b/p"}', '{"later_release": 1}'])
def test_a_mark_that_cannot_be_read_is_one(conn, text):
    with transaction(conn):
        meta.put(conn, "past", text)
    found = past.read(conn)
    assert found is not None
    assert "it sends to nobody" in found.sentence


def test_a_file_without_a_schema_lives(tmp_path):
    assert past.of_file(tmp_path / "none.db") is None
    apsw.Connection(str(tmp_path / "empty.db")).execute("CREATE TABLE t (a)")
    assert past.of_file(tmp_path / "empty.db") is None


def test_the_sessions_of_the_past_end_at_the_newest(conn):
    assert past.newest_session(conn) == 0
    _, session = make_session(conn)
    assert past.newest_session(conn) == session


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (replace(MADE, asked="", timestamp=""), True),  # the same position
        (replace(MADE, txid=""), True),  # the same question, whatever the replica would answer today
        (replace(MADE, asked="", txid="0000000000000012"), False),
        (replace(MADE, asked="", prefix="epoch_b"), False),
        (replace(MADE, replica="s3://b/q"), False),
    ],
)
def test_two_pasts_are_one_by_their_position_or_by_their_question(other, is_same):
    assert MADE.is_same_as(other) is is_same


def test_two_questions_about_the_newest_position_are_not_one():
    assert not replace(MADE, asked="").is_same_as(replace(MADE, asked="", txid="0000000000000012"))
