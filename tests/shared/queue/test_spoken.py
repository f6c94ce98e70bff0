import pytest

from shared.core.errors import ClaimLost, WrongState
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, messages, polled_channels, responses
from shared.db.queue import spoken as spoken_rows
from shared.queue import replies, spoken, turns
from shared.queue.turns import CUT_OFF, Failure, RetryPolicy, TurnReply
from tests.support import LEASE, NOW, column, make_agent, plan, put, take, texts

POLICY = RetryPolicy(max_attempts=5, base_ms=5000, cap_ms=300_000, jitter=0.0)
BROKEN = Failure("it broke")


def say(conn, claim, text="on my way", key="call-1"):
    new = replies.response(claim.asked[0], text, agent=claim.agent, session_id=claim.session_id)
    with transaction(conn):
        return spoken.say(conn, claim, new, key=key, now_ms=NOW)


def fail(conn, claim, failure=BROKEN):
    with transaction(conn):
        turns.fail(conn, claim, failure, POLICY, now_ms=NOW)


def settle(conn, claim, *said):
    with transaction(conn):
        turns.settle(conn, claim, [TurnReply(text, claim.asked[0]) for text in said], None, now_ms=NOW)


def states(conn):
    return rows(conn, "SELECT status, failure, retry_count FROM messages WHERE trigger = 1 ORDER BY id")


def said(conn):
    return column(conn, "SELECT message FROM responses ORDER BY id")


def test_what_a_turn_says_while_it_runs_is_a_response_of_its_own(conn):
    put(conn, "question")
    row_id = say(conn, take(conn))
    assert rows(conn, "SELECT id, message, status FROM responses") == [(row_id, "on my way", "pending")]


def test_a_call_that_is_repeated_stores_nothing_and_returns_the_same_row(conn):
    put(conn, "question")
    claim = take(conn)
    assert [say(conn, claim), say(conn, claim, "in other words"), say(conn, claim, key="call-2")] == [1, 1, 2]
    assert said(conn) == ["on my way"] * 2


def test_an_act_is_done_once_and_counts_as_spoken(conn):
    put(conn, "question")
    claim = take(conn)
    with transaction(conn):
        assert spoken.act(conn, claim, key="c", now_ms=NOW)
        assert not spoken.act(conn, claim, key="c", now_ms=NOW)
    assert spoken_rows.has_spoken(conn, claim.token)
    with pytest.raises(WrongState, match="use a key of its own"):
        say(conn, claim, key="c")


def test_a_turn_that_lost_its_claim_says_nothing_and_repeats_nothing(conn):
    put(conn, "question")
    claim = take(conn)
    with transaction(conn):
        claims.release(conn, claim, now_ms=NOW)
    with pytest.raises(ClaimLost):
        say(conn, claim)
    assert rows(conn, "SELECT * FROM responses") == []


def test_a_turn_whose_messages_another_turn_has_says_nothing(conn):
    """The fence is the token: the rows are being processed all the same."""
    put(conn, "question")
    lost = take(conn)
    with transaction(conn):
        claims.release(conn, lost, now_ms=NOW)
    other = take(conn, token="turn_b")
    with pytest.raises(ClaimLost), transaction(conn):
        spoken_rows.mark(conn, lost)
    assert column(conn, "SELECT spoken FROM messages") == [None]
    assert say(conn, other) == 1


def test_a_text_that_a_tool_has_said_is_not_said_again(conn):
    put(conn, "question")
    claim = take(conn)
    say(conn, claim, "42")
    settle(conn, claim, "42", "and more")
    assert said(conn) == ["42", "and more"]


def test_the_same_text_goes_to_each_message_that_it_answers(conn):
    for _ in range(2):
        put(conn, "question")
        settle(conn, take(conn), "42")
    assert said(conn) == ["42", "42"]


def test_a_text_that_could_not_be_sent_is_said_again(conn):
    put(conn, "question")
    claim = take(conn)
    say(conn, claim, "42")
    rows(conn, "UPDATE responses SET status = 'dead', failure = 'error', last_error = 'no'")
    settle(conn, claim, "42")
    assert said(conn) == ["42", "42"]


ENDS = {
    "an error": Failure("it broke"),
    "a failure for good": Failure("no", retryable=False),
    "a wait": Failure("later", wait_ms=60_000),
    "a login that has expired": Failure("log in", code="auth"),
    "a killed process": Failure("gone", code="process_gone"),
    "a limit": Failure("too long", code="turn_timeout"),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_turn_that_has_spoken_is_not_run_again_by_itself(conn, end):
    put(conn, "question")
    put(conn, "and another")
    claim = take(conn)
    say(conn, claim)
    fail(conn, claim, ENDS[end])
    assert [status for status, *_ in states(conn)] == ["dead"] * 2
    assert {code for _, code, _ in states(conn)} == {ENDS[end].code}
    assert said(conn) == ["on my way", CUT_OFF]
    assert take(conn, token="turn_b", now_ms=NOW + 10**9) is None


def test_a_turn_whose_process_is_gone_is_not_run_again_if_it_has_spoken(conn):
    put(conn, "question")
    say(conn, take(conn))
    with transaction(conn):
        turns.rescue(conn, POLICY, now_ms=NOW + LEASE + 1)
    assert states(conn) == [("dead", "process_gone", 1)]
    assert said(conn) == ["on my way", CUT_OFF]


def test_an_interrupted_turn_that_has_spoken_ends_and_says_what_interrupted_it(conn):
    put(conn, "question")
    put(conn, "context", trigger=False)
    claim = take(conn)
    say(conn, claim)
    with transaction(conn):
        turns.release(conn, claim, why="an urgent message came", now_ms=NOW)
    assert states(conn) == [("dead", "interrupted", 1)]
    assert column(conn, "SELECT last_error FROM messages WHERE trigger = 1") == [
        "an urgent message came, after the turn had spoken"
    ]
    assert column(conn, "SELECT status FROM messages WHERE trigger = 0") == ["pending"]


def test_an_earlier_turn_that_spoke_does_not_end_a_later_one_that_did_not(conn):
    put(conn, "question")
    say(conn, take(conn))
    fail(conn, take_running(conn))
    with transaction(conn):
        messages.retry(conn, 1, now_ms=NOW)
    fail(conn, take(conn, token="turn_b"))
    assert states(conn) == [("pending", "error", 1)]


def take_running(conn):
    (claim, _), *_ = claims.running(conn)
    return claim


def test_an_operator_lets_all_messages_of_the_turn_go_on_together_and_apart_from_others(conn):
    for text in ("question", "and another"):
        put(conn, text)
    claim = take(conn)
    say(conn, claim)
    fail(conn, claim)
    put(conn, "a later one")
    with transaction(conn):
        messages.retry_many(conn, after=0, limit=10, now_ms=NOW)
    again = take(conn, token="turn_b")
    assert texts(again) == ["question", "and another"]
    assert [each.spoken for each in again.asked] == ["turn_a"] * 2


def test_an_agent_with_resume_spoken_goes_on_once(conn):
    make_agent(conn, "assistant", resume_spoken=True)
    put(conn, "question")
    claim = take(conn)
    say(conn, claim)
    fail(conn, claim)
    assert states(conn) == [("pending", "error", 1)]
    assert said(conn) == ["on my way"]
    again = take(conn, token="turn_b", now_ms=NOW + 60_000)
    say(conn, again, "and further")
    fail(conn, again)
    assert states(conn) == [("dead", "error", 2)]
    assert said(conn) == ["on my way", "and further", CUT_OFF]
    assert spoken_rows.said(conn, "turn_a", limit=10) == ["on my way", "and further"]


def test_an_interrupted_turn_goes_on_at_once_where_its_agent_may(conn):
    make_agent(conn, "assistant", resume_spoken=True)
    put(conn, "question")
    claim = take(conn)
    say(conn, claim)
    with transaction(conn):
        turns.release(conn, claim, now_ms=NOW)
    assert texts(take(conn, token="turn_b")) == ["question"]


def test_what_was_said_and_the_answer_are_the_history_once_also_after_a_turn_that_went_on(conn):
    make_agent(conn, "assistant", resume_spoken=True)
    put(conn, "question")
    claim = take(conn)
    say(conn, claim)
    fail(conn, claim)
    settle(conn, take(conn, token="turn_b", now_ms=NOW + 60_000), "the answer")
    history = rows(conn, "SELECT role, content FROM agent_messages ORDER BY created_at, id")
    assert sorted(history) == [("assistant", "on my way"), ("assistant", "the answer"), ("user", "question")]


def test_a_settled_turn_that_spoke_is_whole_with_and_without_a_final_answer(conn):
    put(conn, "question")
    claim = take(conn)
    say(conn, claim)
    settle(conn, claim, "done")
    assert said(conn) == ["on my way", "done"]
    put(conn, "question")
    claim = take(conn, token="turn_b")
    say(conn, claim, "all there is")
    settle(conn, claim)
    assert states(conn) == [("completed", None, 0)] * 2
    assert said(conn) == ["on my way", "done", "all there is"]


def test_each_message_of_a_polled_channel_gets_what_was_said_or_an_end(conn):
    with transaction(conn):
        polled_channels.add(conn, "telegram", now_ms=NOW)
    put(conn, "question")
    put(conn, "and another")
    claim = take(conn)
    say(conn, claim)
    rows(conn, "UPDATE messages SET chat_id = NULL")
    claim = take_running(conn)
    settle(conn, claim)
    assert rows(conn, "SELECT in_reply_to, message FROM responses ORDER BY id") == [(1, "on my way"), (2, "")]


def test_what_was_said_is_pruned_by_age(conn):
    put(conn, "question")
    claim = take(conn)
    say(conn, claim)
    settle(conn, claim)
    with transaction(conn):
        assert spoken_rows.prune(conn, older_than_ms=NOW, limit=10) == 0
        assert spoken_rows.prune(conn, older_than_ms=NOW + 1, limit=10) == 1
    assert rows(conn, "SELECT * FROM spoken") == []


def test_what_a_turn_said_is_kept_as_long_as_it_runs(conn):
    """Else the turn, when it fails, would look as if it had said nothing, and would run again."""
    put(conn, "question")
    claim = take(conn)
    say(conn, claim)
    with transaction(conn):
        assert spoken_rows.prune(conn, older_than_ms=NOW + 1, limit=10) == 0
    assert spoken_rows.has_spoken(conn, claim.token)


def test_what_a_turn_said_is_not_said_again_at_its_end_though_it_is_old_by_then(conn):
    put(conn, "question")
    claim = take(conn)
    say(conn, claim, "Done.")
    rows(conn, "UPDATE responses SET status = 'acked', acked_at = :now", {"now": NOW})
    put(conn, "another", chat="200")
    say(conn, take(conn, chat="200", token="turn_b"), "the newest")
    with transaction(conn):
        assert responses.prune(conn, after_id=0, older_than_ms=NOW + 1, limit=10) == (0, 0)
    settle(conn, claim, "Done.")
    assert said(conn) == ["Done.", "the newest"]
    with transaction(conn):
        assert responses.prune(conn, after_id=0, older_than_ms=NOW + 1, limit=10) == (1, 0)


def test_pruning_what_was_said_reads_only_what_is_old_and_the_open_messages_of_its_story(conn):
    lines = plan(conn, spoken_rows.PRUNE, cutoff=NOW, limit=10)
    assert any("spoken_by_time (created_at<?)" in line for line in lines)
    assert any("messages_of_story (spoken=?)" in line for line in lines)
    assert not any(line.startswith(("SCAN s", "SCAN messages")) for line in lines)
