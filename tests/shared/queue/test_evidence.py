"""What a platform shows of a part without an answer, on the part's row."""

from shared.channels.base import Evidence
from shared.db.engine.connection import rows, transaction
from shared.db.platforms import unknown_sends
from shared.db.queue import responses
from shared.queue import evidence
from tests.support import NOW, answer


def settled(conn, found, *, chat="200"):
    id_ = answer(conn, "ok", chat=chat, channel="discord")
    with transaction(conn):
        response = responses.claim(conn, id_, token="a", now_ms=NOW, lease_ms=60_000)
        unknown_sends.note(conn, id_, 0, tried_from=NOW)
        verdict = evidence.settle(conn, response, 0, found, now_ms=NOW + 5)
    kept = rows(conn, "SELECT evidence, message_id, settled_at FROM unknown_sends WHERE response_id = :id", {"id": id_})
    return verdict, kept


def test_what_arrived_is_kept_with_its_id(conn):
    found = settled(conn, Evidence("arrived", ("900", "901")))
    assert found == (("arrived", "900"), [("arrived", "900", NOW + 5)])


def test_a_message_that_is_a_part_of_another_response_is_no_evidence(conn):
    """Agents say "ok" twice."""
    other = answer(conn, "ok", chat="200", channel="discord")
    sent = """UPDATE responses SET status = 'acked', acked_at = 1, parts = '["900"]' WHERE id = :id"""
    rows(conn, sent, {"id": other})
    assert settled(conn, Evidence("arrived", ("900", "901")))[0] == ("arrived", "901")
    assert settled(conn, Evidence("arrived", ("900",)))[0] == ("absent", None)
    assert settled(conn, Evidence("arrived", ("900",)), chat="elsewhere")[0] == ("arrived", "900")


def test_nothing_either_way_is_kept_as_such(conn):
    assert settled(conn, Evidence("none")) == (("none", None), [("none", None, NOW + 5)])
