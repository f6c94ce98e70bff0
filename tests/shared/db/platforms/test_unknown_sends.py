"""Parts that were sent without an answer, as rows."""

import apsw
import pytest

from shared.db.engine.connection import rows
from shared.db.platforms import unknown_sends
from tests.support import NOW, answer


def test_a_part_that_is_sent_again_without_an_answer_keeps_its_first_instant(conn):
    unknown_sends.note(conn, 1, 0, tried_from=NOW)
    unknown_sends.note(conn, 1, 0, tried_from=NOW + 9)
    assert unknown_sends.tried_from(conn, 1, 0) == NOW
    assert unknown_sends.settle(conn, 1, 0, "absent", None, now_ms=NOW + 10)
    assert unknown_sends.tried_from(conn, 1, 0) is None
    assert not unknown_sends.settle(conn, 1, 0, "arrived", "5", now_ms=NOW + 11)
    unknown_sends.note(conn, 1, 0, tried_from=NOW + 20)
    assert unknown_sends.tried_from(conn, 1, 0) == NOW


def test_what_arrived_has_its_id_and_nothing_else_has_one(conn):
    unknown_sends.note(conn, 1, 0, tried_from=NOW)
    for evidence, message_id in (("arrived", None), ("none", "5"), ("perhaps", None)):
        with pytest.raises(apsw.ConstraintError):
            unknown_sends.settle(conn, 1, 0, evidence, message_id, now_ms=NOW)


def test_the_rows_of_responses_that_are_gone_are_pruned(conn):
    id_ = answer(conn)
    for each in (id_, 99):
        unknown_sends.note(conn, each, 0, tried_from=NOW)
    assert unknown_sends.prune(conn, limit=10) == 1
    assert rows(conn, "SELECT response_id FROM unknown_sends") == [(id_,)]
