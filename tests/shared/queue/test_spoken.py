import pytest

from shared.core.errors import ClaimLost
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims
from shared.queue import replies, spoken
from tests.support import NOW, put, take


def say(conn, claim, text="on my way"):
    new = replies.response(claim.asked[0], text, agent=claim.agent, session_id=claim.session_id)
    with transaction(conn):
        return spoken.say(conn, claim, new, key="call-1", now_ms=NOW)


def test_what_a_turn_says_while_it_runs_is_a_response_of_its_own(conn):
    put(conn, "question")
    row_id = say(conn, take(conn))
    assert rows(conn, "SELECT id, message, status FROM responses") == [(row_id, "on my way", "pending")]


def test_a_turn_that_lost_its_claim_says_nothing(conn):
    put(conn, "question")
    claim = take(conn)
    with transaction(conn):
        claims.release(conn, claim, now_ms=NOW)
    with pytest.raises(ClaimLost):
        say(conn, claim)
    assert rows(conn, "SELECT * FROM responses") == []
