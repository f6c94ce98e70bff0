"""A person has an agent forget what they said."""

import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.queue import agent_messages, forgotten_people, sessions
from shared.db.queue.agent_messages import AgentMessage
from shared.db.roster import memory_lines
from shared.db.roster.memory_lines import LineAuthor, NewLine
from shared.queue import forgetting, replies, spoken, turns
from shared.queue.forgetting import NOTE, ForgottenCounts
from shared.queue.turns import TurnReply
from tests.support import NOW, column, make_agent, make_session, plan, put, take

ANA, BEN = {"sender_id": "5", "sender": "Ana"}, {"sender_id": "6", "sender": "Ben"}


def say(conn, text, chat="100", **who):
    """A message and its answer."""
    put(conn, text, chat=chat, **who)
    claim = take(conn, chat=chat)
    with transaction(conn):
        turns.settle(conn, claim, [TurnReply(f"to {text}", claim.asked[0])], "c-1", provider="claude", now_ms=NOW)


def forget(conn, *agents, sender_id="5", channel="telegram", **more):
    with transaction(conn):
        return forgetting.forget(conn, agents or ["assistant"], channel, sender_id, now_ms=NOW, **more)


def lines(conn):
    return column(conn, "SELECT content FROM agent_messages ORDER BY id")


def test_the_lines_of_a_person_and_the_answers_to_them_are_gone_and_no_others(conn):
    say(conn, "mine", **ANA)
    say(conn, "of Ben", **BEN)
    say(conn, "mine elsewhere", chat="200", **ANA)
    assert forget(conn) == ForgottenCounts(0, 4, goes_on=False)
    assert lines(conn) == ["of Ben", "to of Ben", NOTE, NOTE]
    assert column(conn, "SELECT session_id FROM agent_messages WHERE channel = 'internal' ORDER BY 1") == [1, 2]


def test_what_a_turn_said_while_it_ran_is_gone_too(conn):
    put(conn, "mine", **ANA)
    claim = take(conn)
    with transaction(conn):
        new = replies.response(claim.asked[0], "on my way", agent="assistant", session_id=claim.session_id)
        spoken.say(conn, claim, new, key="call-1", now_ms=NOW)
        turns.settle(conn, claim, [TurnReply("done", claim.asked[0])], None, now_ms=NOW)
    forget(conn)
    assert lines(conn) == [NOTE]


def test_the_program_goes_on_in_a_fresh_session_where_a_line_is_gone(conn):
    say(conn, "mine", **ANA)
    say(conn, "of Ben", chat="200", **BEN)
    forget(conn)
    assert rows(conn, "SELECT continuation, continued_by FROM sessions ORDER BY id") == [
        (None, "claude"),
        ("c-1", "claude"),
    ]


def test_lines_of_memory_go_with_it(conn):
    _, session = make_session(conn)
    with transaction(conn):
        new = NewLine("tea", False, None, None, (LineAuthor("telegram", "5", "Ana"),))
        memory_lines.add(conn, sessions.known(conn, session), new, now_ms=NOW)
    assert forget(conn) == ForgottenCounts(1, 0)
    assert column(conn, "SELECT text FROM memory_lines") == []
    assert lines(conn) == []  # nothing was said, so there is nothing to note


@pytest.mark.parametrize("other", [{"channel": "discord"}, {"sender_id": "50"}, {"channel": "tele"}])
def test_another_person_of_the_same_number_keeps_theirs(conn, other):
    say(conn, "mine", **ANA)
    assert forget(conn, **other) == ForgottenCounts()
    assert lines(conn) == ["mine", "to mine"]


def test_it_counts_for_all_bots_of_the_platform(conn):
    say(conn, "mine", **ANA)
    rows(conn, "UPDATE agent_messages SET channel = 'telegram.shop'")
    assert forget(conn, channel="telegram.other").said == 2


def test_the_history_of_another_agent_stays(conn):
    make_agent(conn, "bob")
    say(conn, "mine", **ANA)
    assert forget(conn, "bob") == ForgottenCounts()
    assert forget(conn, "bob", "assistant").said == 2


def test_no_line_gets_the_number_of_one_that_is_gone(conn):
    say(conn, "mine", **ANA)
    newest = max(column(conn, "SELECT id FROM agent_messages"))
    forget(conn)
    assert column(conn, "SELECT id FROM agent_messages") == [newest + 1]


def test_a_second_time_there_is_nothing_to_forget(conn):
    say(conn, "mine", **ANA)
    forget(conn)
    assert forget(conn) == ForgottenCounts()
    assert lines(conn) == [NOTE]


def history(conn, count, session, **who):
    with transaction(conn):
        line = AgentMessage("assistant", "user", "telegram", "Ana", "m", "old", NOW, session)
        agent_messages.append(conn, (line._replace(**who) for _ in range(count)))


def test_of_an_earlier_release_the_lines_of_a_direct_chat_go_and_those_of_a_group_stay(conn):
    (chat, direct), (_, group) = make_session(conn), make_session(conn, chat="200")
    with transaction(conn):
        rows(
            conn, "INSERT INTO users (id, channel, sender_id, created_at, updated_at) VALUES (1, 'telegram', '5', 1, 1)"
        )
        rows(conn, "INSERT INTO user_dms (user_id, chat_id, resolved_at) VALUES (1, ?, 1)", (chat,))
    history(conn, 2, direct)
    history(conn, 3, group)
    assert forget(conn).said == 2
    assert lines(conn) == ["old"] * 3 + [NOTE]


def test_of_an_earlier_release_what_was_said_to_the_person_alone_in_a_group_goes(conn):
    chat, group = make_session(conn, chat="200")
    with transaction(conn):
        own, of_other = (sessions.ensure(conn, "assistant", chat, None, private_to=who, now_ms=NOW) for who in "56")
    for count, session in enumerate((own, of_other, group), 1):
        history(conn, count, session)
    assert forget(conn, channel="discord").said == 0
    assert forget(conn).said == 1
    assert (
        column(conn, "SELECT session_id FROM agent_messages WHERE channel <> 'internal'")
        == [of_other] * 2 + [group] * 3
    )


def test_a_slice_costs_no_more_where_the_agent_has_many_sessions(conn):
    _, session = make_session(conn)
    history(conn, 40, session)

    def steps():
        whom, counted = forgotten_people.of("assistant", "telegram", "5"), []
        conn.set_progress_handler(lambda: bool(counted.append(1)), 10)
        with transaction(conn):
            assert forgotten_people.delete_slice(conn, whom, limit=4).lines == []
        conn.set_progress_handler(None)
        return len(counted)

    of_one = steps()
    with transaction(conn):
        for number in range(300):
            sessions.ensure(conn, "assistant", 1, f"thread {number}", now_ms=NOW)
    assert steps() < of_one + 20


def test_older_lines_go_slice_by_slice_and_each_is_looked_at_once(conn):
    _, session = make_session(conn)
    rows(conn, "UPDATE sessions SET continuation = 'c-1', continued_by = 'claude'")
    history(conn, 7, session, sender_id="5")
    history(conn, 2, session, sender_id="6")
    assert forget(conn, at_once=3) == ForgottenCounts(0, 1, goes_on=True)
    place, counts = None, []
    while True:
        with transaction(conn):
            count, place = forgetting.forget_older(conn, place, 4)
        if place is None:
            break
        counts.append(count)
    assert counts == [4, 2]
    assert lines(conn) == ["old", "old", NOTE]
    assert rows(conn, "SELECT * FROM forgotten_people") == []


def test_the_slice_is_found_by_the_index_of_the_agents_lines(conn):
    key = {"agent": "assistant", "before": 9, "limit": 3, "oldest": 1, "sender_id": "5", "platform": "x"}
    for sql in (forgotten_people.OLDEST, forgotten_people.DELETE):
        found = plan(conn, sql, **{name: value for name, value in key.items() if f":{name}" in sql})
        assert any("agent_messages_of_agent" in each for each in found), found
