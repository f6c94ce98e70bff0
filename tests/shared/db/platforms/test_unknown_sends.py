"""Parts that were sent without an answer, as rows."""

import apsw
import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.platforms import unknown_sends
from shared.db.queue import responses
from tests.support import NOW, answer, begin_epoch


def test_a_part_that_is_sent_again_without_an_answer_keeps_its_first_instant(conn):
    unknown_sends.note(conn, 1, 0, tried_from=NOW, now_ms=NOW)
    unknown_sends.note(conn, 1, 0, tried_from=NOW + 9, now_ms=NOW)
    assert unknown_sends.tried_from(conn, 1, 0) == NOW
    assert unknown_sends.settle(conn, 1, 0, "absent", None, now_ms=NOW + 10)
    assert unknown_sends.tried_from(conn, 1, 0) is None
    assert not unknown_sends.settle(conn, 1, 0, "arrived", "5", now_ms=NOW + 11)
    unknown_sends.note(conn, 1, 0, tried_from=NOW + 20, now_ms=NOW)
    assert unknown_sends.tried_from(conn, 1, 0) == NOW


def test_a_send_that_went_out_before_a_restore_shows_that_the_platform_sends(conn):
    unknown, sent = answer(conn, "one", chat="100"), answer(conn, "two", chat="200")
    with transaction(conn):
        unknown_sends.note(conn, unknown, 0, tried_from=NOW, now_ms=NOW)
        rows(conn, "UPDATE responses SET status = 'acked', acked_at = ? WHERE id = ?", (NOW + 1, sent))
    begin_epoch(conn)
    id_ = answer(conn, "three", chat="300")
    with transaction(conn):
        later = responses.claim(conn, id_, token="a", now_ms=NOW, lease_ms=60_000)
    assert not unknown_sends.is_of_several_chats(conn, later, now_ms=NOW + 2)


def test_what_arrived_has_its_id_and_nothing_else_has_one(conn):
    unknown_sends.note(conn, 1, 0, tried_from=NOW, now_ms=NOW)
    for evidence, message_id in (("arrived", None), ("none", "5"), ("perhaps", None)):
        with pytest.raises(apsw.ConstraintError):
            unknown_sends.settle(conn, 1, 0, evidence, message_id, now_ms=NOW)


def test_the_rows_of_responses_that_are_gone_are_pruned(conn):
    id_ = answer(conn)
    for each in (id_, 99):
        unknown_sends.note(conn, each, 0, tried_from=NOW, now_ms=NOW)
    assert unknown_sends.prune(conn, limit=10) == 1
    assert rows(conn, "SELECT response_id FROM unknown_sends") == [(id_,)]


def settled(conn, verdict, ids=(), *, chat="200"):
    id_ = answer(conn, "ok", chat=chat, channel="discord")
    with transaction(conn):
        response = responses.claim(conn, id_, token="a", now_ms=NOW, lease_ms=60_000)
        unknown_sends.note(conn, id_, 0, tried_from=NOW, now_ms=NOW)
        found = unknown_sends.settle_found(conn, response, 0, verdict, ids, now_ms=NOW + 5)
    kept = rows(conn, "SELECT evidence, message_id, settled_at FROM unknown_sends WHERE response_id = :id", {"id": id_})
    return found, kept


def test_what_arrived_is_kept_with_its_id(conn):
    found = settled(conn, "arrived", ("900", "901"))
    assert found == (("arrived", "900"), [("arrived", "900", NOW + 5)])


def test_a_message_that_is_a_part_of_another_response_is_no_evidence(conn):
    """Agents say "ok" twice."""
    other = answer(conn, "ok", chat="200", channel="discord")
    sent = """UPDATE responses SET status = 'acked', acked_at = 1, parts = '["900"]' WHERE id = :id"""
    rows(conn, sent, {"id": other})
    assert settled(conn, "arrived", ("900", "901"))[0] == ("arrived", "901")
    assert settled(conn, "arrived", ("900",))[0] == ("absent", None)
    assert settled(conn, "arrived", ("900",), chat="elsewhere")[0] == ("arrived", "900")


def test_nothing_either_way_is_kept_as_such(conn):
    assert settled(conn, "none") == (("none", None), [("none", None, NOW + 5)])
