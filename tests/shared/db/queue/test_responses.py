import pytest

from shared.core.errors import ClaimLost
from shared.db.engine.connection import rows, transaction
from shared.db.queue import responses
from shared.db.queue.responses import ResponseVerdict
from shared.db.roster import chats
from tests.support import LEASE, NOW, answer, column, dump, make_agent, make_chat, plan, put, row

RETRY = ResponseVerdict(dead=False, retry_count=1, deliver_after=NOW + 5000, reason="broken")
UNKNOWN = ResponseVerdict(
    dead=False, retry_count=1, deliver_after=NOW + 5000, reason="no answer", failure="outcome_unknown"
)


def heads(conn, channel="telegram", now_ms=NOW):
    return responses.heads(conn, channel, now_ms=now_ms)


def take(conn, id_, *, token="send_a", now_ms=NOW):
    with transaction(conn):
        return responses.claim(conn, id_, token=token, now_ms=now_ms, lease_ms=LEASE)


def fail(conn, response, verdict=RETRY):
    with transaction(conn):
        responses.fail(conn, response, verdict, now_ms=NOW)


def ack(conn, response, parts=("m1",), now_ms=NOW):
    with transaction(conn):
        responses.ack(conn, response, parts, now_ms=now_ms)


def test_only_the_oldest_response_of_each_chat_may_go_out(conn):
    first, _, other = answer(conn, chat="1"), answer(conn, chat="1"), answer(conn, chat="2")
    answer(conn, channel="discord", chat="1")
    assert heads(conn) == [first, other]


def test_a_chat_with_a_send_under_way_has_no_head(conn):
    first, second = answer(conn), answer(conn)
    ack(conn, response := take(conn, first))
    assert response.message == "hi"
    assert heads(conn) == [second]
    take(conn, second)
    answer(conn)
    assert heads(conn) == []


def test_a_failing_head_holds_back_its_own_chat_until_it_is_sent_or_dead(conn):
    first, second, other = answer(conn, chat="1"), answer(conn, chat="1"), answer(conn, chat="2")
    fail(conn, take(conn, first))
    assert take(conn, first, now_ms=NOW + 4999) is None
    assert heads(conn) == [other]
    later = NOW + 5000
    fail(conn, take(conn, first, now_ms=later), ResponseVerdict(True, 5, None, "no"))
    assert heads(conn, now_ms=later) == [second, other]


def test_a_chat_that_was_asked_for_silence_waits(conn):
    held, other = answer(conn, chat="1"), answer(conn, chat="2")
    chat = make_chat(conn, "1")
    with transaction(conn):
        chats.pause_sending(conn, chat, until_ms=NOW + 1000, now_ms=NOW)
    assert heads(conn) == [other]
    assert heads(conn, now_ms=NOW + 1000) == [held, other]


def test_a_planned_response_waits_and_holds_back_no_other(conn):
    later, now = answer(conn, deliver_after=NOW + 1000), answer(conn)
    assert heads(conn) == [now]
    assert take(conn, later) is None
    assert responses.next_due(conn, "telegram", now_ms=NOW) == NOW + 1000
    assert responses.next_due(conn, "discord", now_ms=NOW) is None
    ack(conn, take(conn, now))
    assert heads(conn, now_ms=NOW + 1000) == [later]


def test_a_claim_notes_that_sending_begins_before_it_does(conn):
    """If the answer never comes, the row says which part may have been sent."""
    response = take(conn, answer(conn))
    assert row(conn, "responses")["part_started"] == 0
    with transaction(conn):
        responses.record_part(conn, response, ("m1",), lease_until=NOW + 99_000)
    found = row(conn, "responses")
    assert (found["parts"], found["part_started"], found["lease"]) == ('["m1"]', 1, NOW + 99_000)


def test_acknowledging_keeps_the_platforms_ids_and_clears_the_claim(conn):
    ack(conn, take(conn, answer(conn)), ("m1", None, "m3"), now_ms=NOW + 7)
    found = row(conn, "responses")
    names = ("status", "parts", "platform_message_id", "acked_at", "part_started", "claimed_by", "lease")
    assert [found[name] for name in names] == ["acked", '["m1", null, "m3"]', "m1", NOW + 7, None, None, None]
    assert row(conn, "events")["type"] == "response_acked"


def test_an_unknown_outcome_names_its_part_and_the_retry_continues_after_the_sent_ones(conn):
    response = take(conn, answer(conn))
    with transaction(conn):
        responses.record_part(conn, response, ("m1",), lease_until=NOW + LEASE)
    fail(conn, response, UNKNOWN)
    found = row(conn, "responses")
    assert (found["status"], found["part_started"], found["last_error"]) == ("pending", 1, "no answer")
    assert rows(conn, "SELECT type, data ->> 'part', data ->> 'failure' FROM events ORDER BY id DESC LIMIT 2") == [
        ("response_retry", None, "outcome_unknown"),
        ("response_outcome_unknown", 1, None),
    ]
    assert take(conn, response.id, now_ms=NOW + 5000).parts == ("m1",)


def test_a_failure_that_is_known_not_to_have_happened_leaves_no_doubt_behind(conn):
    fail(conn, take(conn, answer(conn)))
    assert row(conn, "responses")["part_started"] is None


FENCED = {
    "record_part": lambda conn, response: responses.record_part(conn, response, ("x",), lease_until=NOW + 1),
    "ack": lambda conn, response: responses.ack(conn, response, ("x",), now_ms=NOW),
    "fail": lambda conn, response: responses.fail(conn, response, RETRY, now_ms=NOW),
}


@pytest.mark.parametrize("verb", FENCED.values(), ids=FENCED)
@pytest.mark.parametrize("taken_over", [True, False], ids=["by another sender", "and nobody has it"])
def test_a_lost_claim_changes_nothing(conn, verb, taken_over):
    lost = take(conn, answer(conn))
    fail(conn, lost)
    if taken_over:
        take(conn, lost.id, token="send_b", now_ms=NOW + 5000)
    before = dump(conn)
    with pytest.raises(ClaimLost), transaction(conn):
        verb(conn, lost)
    assert dump(conn) == before


def test_delivering_tells_the_sends_of_one_channel_with_their_leases(conn):
    response = take(conn, answer(conn))
    take(conn, answer(conn, channel="discord"))
    assert responses.delivering(conn, "telegram") == [(response, NOW + LEASE)]


def test_an_event_counts_as_answered_once_any_agent_said_something_to_it(conn):
    """Two agents may answer one Discord command: the second must not overwrite the first's answer."""
    make_agent(conn, "second")
    asked = put(conn, event_key="77")
    asked_too = put(conn, event_key="77", agent="second")
    asked_else = put(conn, event_key="78", chat="200")
    first, second = answer(conn, in_reply_to=asked), answer(conn, in_reply_to=asked_too)
    other = answer(conn, in_reply_to=asked_else, chat="200")
    claimed = take(conn, first)
    assert not responses.was_answered(conn, claimed)
    ack(conn, claimed)
    assert responses.was_answered(conn, take(conn, second))
    assert not responses.was_answered(conn, take(conn, other))


def test_a_second_response_to_the_same_message_finds_it_answered(conn):
    first, second = answer(conn, in_reply_to=7), answer(conn, in_reply_to=7)
    ack(conn, take(conn, first))
    assert responses.was_answered(conn, take(conn, second))


def test_prune_deletes_old_acked_responses_and_keeps_the_dead_and_the_newest(conn):
    acked, dead, waiting, newest = (answer(conn, chat=str(chat), now_ms=NOW - 9) for chat in range(4))
    ack(conn, take(conn, acked), now_ms=NOW - 5)
    fail(conn, take(conn, dead), ResponseVerdict(True, 5, None, "no"))
    ack(conn, take(conn, newest), now_ms=NOW - 5)
    with transaction(conn):
        assert responses.prune(conn, after_id=0, older_than_ms=NOW - 5, limit=100) == (0, 0)
        assert responses.prune(conn, after_id=0, older_than_ms=NOW - 4, limit=100) == (1, 0)
    assert column(conn, "SELECT id FROM responses") == [dead, waiting, newest]


def test_a_step_of_prune_goes_on_past_rows_of_a_clock_that_was_ahead(conn):
    ahead, old, _ = (answer(conn, chat=str(chat), now_ms=NOW + at) for chat, at in enumerate((9, -9, -8)))
    ack(conn, take(conn, old), now_ms=NOW - 5)
    with transaction(conn):
        assert responses.prune(conn, after_id=0, older_than_ms=NOW, limit=1) == (0, ahead)
        assert responses.prune(conn, after_id=ahead, older_than_ms=NOW, limit=1) == (1, old)
        assert responses.prune(conn, after_id=old, older_than_ms=NOW, limit=1) == (0, 0)


def test_prune_keeps_the_card_of_an_approval_that_waits(conn):
    """It is changed when that is decided, and for that its id on the platform has to be known."""
    card, old, _ = (answer(conn, chat=str(chat), now_ms=NOW - 9) for chat in range(3))
    for id_ in (card, old):
        ack(conn, take(conn, id_), now_ms=NOW - 5)
    with transaction(conn):
        rows(
            conn,
            "INSERT INTO approvals (approval_id, kind, card, expires_at, created_at, updated_at)"
            " VALUES ('approval_1', 'sender', ?, 0, 0, 0)",
            (card,),
        )
        assert responses.prune(conn, after_id=0, older_than_ms=NOW, limit=100) == (1, 0)
        rows(conn, "UPDATE approvals SET status = 'expired'")
        assert responses.prune(conn, after_id=0, older_than_ms=NOW, limit=100) == (1, 0)


def test_a_released_response_is_pending_and_cost_no_attempt(conn):
    claimed = take(conn, answer(conn))
    with transaction(conn):
        responses.release(conn, claimed)
    found = row(conn, "responses", claimed.id)
    assert (found["status"], found["retry_count"], found["part_started"]) == ("pending", 0, None)
    with pytest.raises(ClaimLost), transaction(conn):
        responses.release(conn, claimed)


def test_a_sent_response_is_known_by_its_last_part_in_its_own_chat_only(conn):
    sent, other = answer(conn), make_chat(conn, "200")
    chat = row(conn, "responses", sent)["chat_id"]
    assert responses.sent_as(conn, sent, chat_id=chat) is None
    ack(conn, take(conn, sent), parts=("m1", "m2"))
    assert responses.sent_as(conn, sent, chat_id=chat) == "m2"
    assert responses.sent_as(conn, sent, chat_id=other) is None, "elsewhere that number is another message"
    assert responses.sent_as(conn, sent + 1, chat_id=chat) is None


def test_a_claim_tells_what_has_become_of_its_chat(conn):
    usual, gone = answer(conn), answer(conn, chat="300")
    with transaction(conn):
        chats.set_status(conn, "telegram", "300", "inactive", now_ms=NOW)
        direct = chats.ensure(conn, "discord", "user/5", is_group=False, opens_for="5", now_ms=NOW)
    unopened = answer(conn, chat="user/5", channel="discord")
    claims = [take(conn, id_) for id_ in (usual, gone, unopened)]
    assert [(each.is_inactive, each.opens_for) for each in claims] == [(False, None), (True, None), (False, "5")]
    ((lost, _),) = responses.delivering(conn, "discord")
    assert (lost.chat_id, lost.opens_for) == (direct.id, "5")


def test_open_responses_are_counted(conn):
    acked, *_ = (answer(conn, chat=str(chat)) for chat in range(3))
    ack(conn, take(conn, acked), now_ms=NOW)
    answer(conn, chat="0", deliver_after=NOW + 1)
    assert responses.open_count(conn, now_ms=NOW) == 2, "what is planned for later does not wait for its delivery"
    assert responses.open_count(conn, now_ms=NOW + 1) == 3


PLANS = {
    "HEADS": (responses.HEADS, {"channel": "telegram", "now": NOW}),
    "of a message": ("SELECT id FROM responses WHERE in_reply_to = 7 ORDER BY id", {}),
    "next due": (
        "SELECT min(deliver_after) FROM responses"
        " WHERE channel = :channel AND status = 'pending' AND deliver_after > :now",
        {"channel": "telegram", "now": NOW},
    ),
    "delivering": ("SELECT id FROM responses WHERE channel = 'telegram' AND status = 'delivering' ORDER BY id", {}),
}


@pytest.mark.parametrize(("sql", "parameters"), PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("analysed", [False, True], ids=["without statistics", "with statistics"])
def test_no_hot_query_reads_the_whole_table(conn, sql, parameters, analysed):
    if analysed:
        with transaction(conn):
            conn.executemany(
                "INSERT INTO responses (message_id, channel, sender, message, created_at, status, acked_at)"
                " VALUES (?, 'telegram', 'A', 't', 1, 'acked', 1)",
                ((f"m{number}",) for number in range(300)),
            )
        for number in range(3):
            answer(conn, chat=str(number))
        rows(conn, "ANALYZE")
    lines = plan(conn, sql, **parameters)
    assert lines
    assert [line for line in lines if line.startswith("SCAN r") and "USING" not in line] == []
