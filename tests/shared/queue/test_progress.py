"""The line of a turn that runs is removed when the turn is over, whatever ended it, and behind what that said."""

import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.platforms import progress_lines
from shared.db.queue import responses
from shared.queue import cancellations, progress, turns
from shared.queue.turns import Failure, RetryPolicy, TurnReply
from tests.support import NOW, answer, column, plan, put, take

POLICY = RetryPolicy(5, 1, 1, 0.0)
CONTENTS = "SELECT content FROM responses ORDER BY id"


def settle(conn, claim):
    turns.settle(conn, claim, [TurnReply("done", claim.asked[0])], None, now_ms=NOW)


def killed(conn, _):
    turns.rescue(conn, POLICY, now_ms=NOW, everything=True)


ENDS = {
    "an answer": settle,
    "a failure": lambda conn, claim: turns.fail(conn, claim, Failure("broken"), POLICY, now_ms=NOW),
    "an interruption": lambda conn, claim: turns.release(conn, claim, now_ms=NOW),
    "a stop": lambda conn, claim: cancellations.cancel(conn, claim.batch[0].id, reason="stop", now_ms=NOW),
    "a kill of dispatch": killed,
}


@pytest.fixture
def claim(conn):
    put(conn)
    claim = take(conn)
    with transaction(conn):
        assert progress.show(conn, claim, claim.asked[0], "working …", now_ms=NOW)
    return claim


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_the_line_is_removed_once_behind_the_answer(conn, claim, end):
    (line,) = column(conn, "SELECT id FROM responses")
    with transaction(conn):
        assert progress.remove_old(conn, now_ms=NOW) == 0
        end(conn, claim)
        assert [progress.remove_old(conn, now_ms=NOW) for _ in range(2)] == [1, 0]
    assert column(conn, CONTENTS)[-1] == f'{{"removes": {line}}}'


@pytest.mark.parametrize("end", ["status = 'acked', acked_at = 1", "status = 'dead'"])
def test_the_line_is_known_until_its_removal_has_ended(conn, claim, end):
    """A removal that waited longer than its line was kept found no id of the platform, and the line stayed."""
    with transaction(conn):
        settle(conn, claim)
        progress.remove_old(conn, now_ms=NOW)
    rows(conn, "UPDATE responses SET status = 'acked', acked_at = ? WHERE content NOT LIKE '%removes%'", (NOW,))

    def pruned():
        with transaction(conn):
            assert progress.remove_old(conn, now_ms=NOW) == 0
            responses.prune(conn, after_id=0, older_than_ms=NOW + 1, limit=100)
        return column(conn, "SELECT message FROM responses ORDER BY id")

    assert pruned() == ["working …", ""]
    rows(conn, f"UPDATE responses SET {end} WHERE status = 'pending'")
    assert pruned() == [""]
    assert column(conn, "SELECT count(*) FROM progress_lines") == [0]


def test_it_answers_nothing_and_the_turn_has_not_spoken(conn, claim):
    assert rows(conn, "SELECT in_reply_to, agent FROM responses") == [(None, None)]
    assert column(conn, "SELECT spoken FROM messages") == [None]


def test_a_turn_that_lost_its_messages_shows_nothing(conn, claim):
    with transaction(conn):
        turns.release(conn, claim, now_ms=NOW)
        assert not progress.show(conn, claim, claim.asked[0], "reading a file …", now_ms=NOW)


def test_a_line_that_never_arrived_is_not_changed_into_a_new_message(conn, claim):
    rows(conn, "UPDATE responses SET status = 'dead'")
    with transaction(conn):
        assert not progress.show(conn, claim, claim.asked[0], "reading a file …", now_ms=NOW)


def test_the_line_of_a_turn_that_lasts_longer_than_responses_are_kept_is_changed_and_removed(conn, claim):
    def sent_and_pruned():
        rows(conn, "UPDATE responses SET status = 'acked', acked_at = ?", (NOW,))
        answer(conn, chat="200")
        responses.prune(conn, after_id=0, older_than_ms=NOW + 1, limit=100)

    (line,) = column(conn, "SELECT id FROM responses")
    for text in ("reading a file …", "thinking …"):
        sent_and_pruned()
        with transaction(conn):
            assert progress.show(conn, claim, claim.asked[0], text, now_ms=NOW)
    sent_and_pruned()
    with transaction(conn):
        settle(conn, claim)
        progress.remove_old(conn, now_ms=NOW)
    assert column(conn, CONTENTS)[-1] == f'{{"removes": {line}}}'


def test_looking_for_old_lines_reads_no_table_of_messages(conn, claim):
    assert not [line for line in plan(conn, progress_lines.OVER) if line.startswith("SCAN m")]
