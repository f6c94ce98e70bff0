"""Why a message was not answered: a reason for every state."""

import re
from pathlib import Path

import pytest

from shared.agents.access import PermissionAsked
from shared.conversation.access import permission_requests
from shared.core.call_scopes import LimitHold, Scope
from shared.db.engine.connection import rows, transaction
from shared.db.platforms import call_holds, channel_outages, channel_pauses
from shared.db.platforms.channel_outages import ChannelOutage
from shared.db.roster import agent_pauses
from shared.db.views import why, why_sentences
from shared.queue import turns
from shared.queue.turns import Failure, RetryPolicy, TurnReply
from tests.support import NOW, plan, put, take

LATER = NOW + 60_000
RETRY = RetryPolicy(5, 120_000, 120_000, 0.0)
ONCE = RetryPolicy(1, 1, 1, 0.0)


def fail(conn, policy=RETRY, reason="no such program", **session):
    claim = take(conn, **session)
    with transaction(conn):
        turns.fail(conn, claim, Failure(reason), policy, now_ms=NOW)


def settle(conn, *texts):
    claim = take(conn)
    with transaction(conn):
        turns.settle(conn, claim, [TurnReply(text, claim.asked[0]) for text in texts], None, now_ms=NOW)


def settle_with(sql, **values):
    """An answered message, whose response is changed to what keeps it from being sent."""

    def make(conn):
        row = put(conn)
        settle(conn, "hi")
        rows(conn, f"UPDATE responses SET {sql}", values)
        return row

    return make


def waiting(conn):
    return put(conn)


def failed(conn):
    row = put(conn)
    fail(conn)
    return row


def dead(conn):
    row = put(conn)
    fail(conn, ONCE)
    return row


def running(conn):
    row = put(conn)
    take(conn)
    return row


def changed(sql, **values):
    """A waiting message with other columns."""

    def make(conn):
        row = put(conn)
        rows(conn, f"UPDATE messages SET {sql} WHERE id = :row", {"row": row, **values})
        return row

    return make


def behind_a_turn(conn):
    put(conn, given_id="first")
    take(conn)
    return put(conn)


def behind_a_retry(conn):
    put(conn, given_id="first")
    fail(conn)
    return put(conn)


def behind_another_chat(conn):
    put(conn, chat="200")
    take(conn, chat="200")
    return put(conn)


def behind_others(conn):
    put(conn)
    put(conn)
    return put(conn)


def of_a_deleted_agent(conn):
    row = put(conn)
    rows(conn, "UPDATE agents SET retired_at = :now", {"now": NOW})
    return row


def of_a_paused_channel(conn):
    row = put(conn)
    settle(conn, "hi")
    with transaction(conn):
        channel_pauses.pause(conn, "telegram", "Unauthorized", check_at=LATER, now_ms=NOW)
    return row


def said_nothing(conn):
    row = put(conn)
    settle(conn, "hi")
    rows(conn, "UPDATE responses SET in_reply_to = 999")
    return row


def of_a_chat(sql):
    """An answered message, and another state of its chat."""

    def make(conn):
        row = put(conn)
        settle(conn, "hi")
        rows(conn, f"UPDATE chats SET {sql}", {})
        return row

    return make


def behind_a_response(conn):
    put(conn)
    settle(conn, "first")
    row = put(conn)
    settle(conn, "second")
    return row


def asking(conn):
    row = put(conn)
    claim = take(conn)
    with transaction(conn):
        permission_requests.ask(conn, claim, PermissionAsked("shell", {}, "call"), expires_at=LATER, now_ms=NOW)
    return row


SENT = "status = 'acked', acked_at = 5"
MESSAGES = {
    "due": (waiting, "It is due", None),
    "waiting_for_retry": (failed, "An attempt failed, and it is tried again by itself: no such program.", LATER),
    "waits_for_more": (changed("gathers_until = :at", at=NOW + 1000), "Its sender may be writing more", NOW + 1000),
    "planned": (changed("process_after = :at", at=LATER), "planned for later", LATER),
    "context": (changed("trigger = 0"), "asked for no answer", None),
    "agent_gone": (of_a_deleted_agent, "Agent assistant was deleted. Cancel it, and write to another agent.", None),
    "session_busy": (behind_a_turn, "Agent assistant is working on first in the same session.", None),
    "behind_retry": (behind_a_retry, "It comes after first, of which an attempt failed: no such program.", LATER),
    "agent_busy": (behind_another_chat, "Agent assistant has 1 turn in other chats, and no more at once.", None),
    "behind": (behind_others, "2 earlier messages of its session come first.", None),
    "asks": (asking, "Its turn waits for a yes or no: Agent assistant asks to use shell, for ", None),
    "running": (running, "Agent assistant is working on it now.", None),
    "process_gone": (
        changed("status = 'processing', claimed_by = 't', lease = :at", at=NOW),
        "The process of its turn has ended.",
        None,
    ),
    "dead": (
        dead,
        "It is dead after 1 attempt: no such program. Retry it when the cause is gone, or discard it.",
        None,
    ),
    "paused": (
        changed("status = 'paused', series_id = 's_1'"),
        "Its schedule s_1 is paused, until you resume it.",
        None,
    ),
    "cancelled": (changed("status = 'cancelled', last_error = 'by Ana'"), "It was cancelled: by Ana.", None),
    "no_answer": (said_nothing, "Agent assistant read it, and did not answer it separately.", None),
    "answered": (settle_with(SENT), "It was answered: response 1 was sent.", None),
    "answer_due": (settle_with("status = 'pending'"), "response 1, goes out within seconds", None),
    "answer_on_its_way": (
        settle_with("status = 'delivering', claimed_by = 't', lease = 1"),
        "response 1, is being sent now",
        None,
    ),
    "answer_dead": (
        settle_with("status = 'dead', last_error = 'chat not found'"),
        "response 1, could not be sent: chat not found. Send it again, or discard it.",
        None,
    ),
    "answer_paused": (
        settle_with("status = 'paused'"),
        "is paused with its series, until you resume the schedule",
        None,
    ),
    "answer_retry": (
        settle_with("failure = 'error', last_error = 'no route', deliver_after = :at", at=LATER),
        "is sent again by itself: no route.",
        LATER,
    ),
    "answer_planned": (settle_with("deliver_after = :at", at=LATER), "is planned for later", LATER),
    "answer_to_fetch": (settle_with("chat_id = NULL"), "waits until a client fetches it", None),
    "answer_behind": (behind_a_response, "comes after response 1 of the same chat", None),
    "chat_inactive": (
        of_a_chat("status = 'inactive'"),
        "the bot was blocked, or removed from the chat. It goes out when the bot is back.",
        None,
    ),
    "chat_silent": (of_a_chat(f"not_before = {LATER}"), "the platform asked for a pause", LATER),
    "channel_paused": (of_a_paused_channel, "nothing is sent on telegram: Unauthorized", None),
}


def reason_of(conn, row):
    return why_sentences.of_message(why.message(conn, row, now_ms=NOW), now_ms=NOW).reason


def test_an_outage_or_a_wait_of_the_whole_bot_is_the_reason_of_its_answers(conn):
    row = of_a_paused_channel(conn)
    rows(conn, "DELETE FROM channel_pauses")
    channel_outages.begin(conn, ChannelOutage("telegram", NOW, "server_error", "Telegram 502", LATER), now_ms=NOW)
    assert "nothing is sent on telegram: Telegram 502" in reason_of(conn, row)
    rows(conn, "UPDATE channel_outages SET probe_at = NULL, ended_at = 1")
    call_holds.hold(conn, "telegram", LimitHold(Scope("bot"), 10_000, "a wait of 10 s"), now_ms=NOW)
    assert "nothing is sent on telegram: a wait of 10 s" in reason_of(conn, row)


@pytest.mark.parametrize("state", MESSAGES)
def test_every_state_of_a_message_is_a_reason(conn, state):
    make, sentence, until = MESSAGES[state]
    facts = why.message(conn, make(conn), now_ms=NOW)
    found = why_sentences.of_message(facts, now_ms=NOW)
    assert (found.state, found.until) == (state, until)
    assert sentence in found.reason


def test_a_task_that_was_answered_is_so_also_once_the_clock_was_set_back(conn):
    row = settle_with(SENT)(conn)
    rows(conn, "UPDATE messages SET process_after = :at WHERE id = :row", {"at": LATER, "row": row})
    assert reason_of(conn, row) == "It was answered: response 1 was sent."


def test_of_many_that_come_before_the_first_hundred_are_counted(conn):
    for _ in range(101):
        put(conn)
    assert reason_of(conn, put(conn)) == "100 earlier messages or more of its session come first."


def test_a_message_is_behind_a_retry_also_where_many_others_wait_between(conn):
    behind_a_retry(conn)
    for _ in range(100):
        last = put(conn)
    assert "It comes after first, of which an attempt failed" in reason_of(conn, last)


def test_a_message_is_behind_others_that_are_due_also_where_many_before_them_are_planned(conn):
    for _ in range(100):
        put(conn, process_after=LATER)
    put(conn)
    put(conn)
    assert reason_of(conn, put(conn)) == "2 earlier messages of its session come first."


def test_a_message_that_is_pruned_has_no_reason(conn):
    assert why.message(conn, 99, now_ms=NOW) is None


@pytest.mark.parametrize("sql", [why.RUNNING, why.AHEAD, why.BUSY])
def test_the_queue_of_a_session_is_read_by_its_index(conn, sql):
    given = {"agent": "assistant", "session": 1, "row": 1, "now": NOW}
    lines = plan(conn, sql, **{name: value for name, value in given.items() if f":{name}" in sql})
    assert any("messages_open" in line for line in lines), lines


def test_a_reason_says_until_when_in_the_words_of_the_command_line():
    because = why_sentences.Why("planned", "It is planned for later.", NOW + 2_922_000)
    assert because.in_full(NOW) == "It is planned for later. That ends in 48 min 42 s."
    assert because.in_full(NOW + 2_922_000) == because._replace(until=None).in_full(NOW) == "It is planned for later."


@pytest.mark.parametrize(("until", "way"), [(None, "agent."), (NOW + 9, "agent, or by itself.")])
def test_a_message_of_a_paused_agent_says_what_ends_the_pause(conn, until, way):
    row = put(conn)
    agent_pauses.pause(conn, "assistant", "auth", "401: expired", until=until, now_ms=NOW)
    found = why_sentences.of_message(why.message(conn, row, now_ms=NOW), now_ms=NOW)
    sentence = f"Agent assistant is paused: 401: expired. It continues when you resume the {way}"
    assert found == ("agent_paused", sentence, until)


def test_what_can_be_done_about_a_dropped_message_is_said_of_known_words_alone():
    assert set(why_sentences.ON_DROPPED) <= set(why_sentences.DROPPED)
    assert why_sentences.of_drop("rate_limited", "chat") == (
        "It was over the limit per minute (chat). The person may write again in a minute."
    )


def test_every_word_of_a_dropped_message_has_a_sentence():
    page = Path(__file__).parents[4] / "docs/access.md"
    table = page.read_text().partition("| reason | |")[2]
    lines = [line for line in table.splitlines() if line.startswith("| `")]
    told = {word for line in lines for word in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert len(told) > 20
    assert told == set(why_sentences.DROPPED)
