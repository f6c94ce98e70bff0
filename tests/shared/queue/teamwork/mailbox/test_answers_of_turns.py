"""What becomes of an agent's answers."""

import contextlib
import random

import pytest

from shared.core import hops
from shared.core.errors import NotFound, WrongState
from shared.db.engine.connection import rows, transaction
from shared.db.queue import ready_sessions
from shared.db.roster import agents, teams
from shared.db.roster.teams import Team
from shared.queue import turns
from shared.queue.teamwork import rooms
from shared.queue.turns import Failure
from tests.shared.queue.teamwork.mailbox.kit import POLICY, ask, begin, consume, end, reply, say, send
from tests.support import NOW, column, dump, put, row

MAIL = "SELECT agent, from_agent, message FROM messages WHERE channel = 'internal' ORDER BY id"


def test_an_answer_goes_back_to_the_asker_and_is_not_answered(conn):
    asked = send(conn, "alice", "bob", "what is 6 times 7?")
    say(conn, "bob", "42", now_ms=NOW + 1)
    answer = row(conn, "messages")
    assert (answer["agent"], answer["from_agent"], answer["message"]) == ("alice", "bob", "42")
    assert (answer["reply_to"], answer["thread_root"], answer["status"]) == (asked, asked, "pending")
    assert answer["conversation_id"] == row(conn, "messages", asked)["conversation_id"]
    say(conn, "alice", "thank you", now_ms=NOW + 2)
    assert rows(conn, MAIL) == [("bob", "alice", "what is 6 times 7?"), ("alice", "bob", "42")]
    assert column(conn, "SELECT id FROM responses") == []
    assert begin(conn, "bob") is None
    history = rows(conn, "SELECT agent_id, role, content FROM agent_messages ORDER BY id")
    assert history[2:] == [("alice", "user", "42"), ("alice", "assistant", "thank you")]


@pytest.mark.parametrize("kind", ["status", "nudge"])
def test_a_status_or_nudge_gets_no_answer(conn, kind):
    send(conn, "alice", "bob", "done", msg_type=kind)
    say(conn, "bob", "fine")
    assert rows(conn, MAIL) == [("bob", "alice", "done")]


def test_the_operator_is_answered_by_a_response(conn):
    send(conn, "operator", "bob", "how are you?")
    say(conn, "bob", "well")
    assert rows(conn, "SELECT channel, sender, message FROM responses") == [("internal", "operator", "well")]


def test_an_answer_that_was_asked_for_a_person_reaches_that_person(conn):
    """The answer comes to the session in which the agent asked, and what is said about it goes to who asked first."""
    put(conn, "ask bob", agent="alice", platform_message_id="m7", content={"is_group": True, "context": {"token": "t"}})
    ask(conn, "alice", "bob", "what is 6 times 7?")
    say(conn, "bob", "42")
    first, _, answer = rows(conn, "SELECT session_id, chat_id, thread_id, message FROM messages ORDER BY id")
    assert answer == (*first[:3], "42")
    say(conn, "alice", "bob says 42")
    told, later = (row(conn, "responses", id_) for id_ in column(conn, "SELECT id FROM responses ORDER BY id"))
    names = ("message_id", "in_reply_to", "channel", "chat_id", "platform_id", "sender", "sender_id", "content")
    assert [later[name] for name in names] == [told[name] for name in names]
    assert (later["message"], later["original_message"]) == ("bob says 42", "ask bob")


def test_the_answer_reaches_the_person_after_their_message_is_pruned(conn):
    put(conn, "ask bob", agent="alice")
    ask(conn, "alice", "bob", "what is 6 times 7?")
    say(conn, "bob", "42")
    rows(conn, "DELETE FROM messages WHERE channel = 'telegram'")
    say(conn, "alice", "bob says 42")
    assert rows(conn, "SELECT platform_id, message FROM responses ORDER BY id")[1] == ("100", "bob says 42")


def test_the_answer_passes_through_any_number_of_agents(conn):
    put(conn, "ask around", agent="alice")
    ask(conn, "alice", "bob", "who knows?")
    ask(conn, "bob", "carol", "do you know?")
    say(conn, "alice", "bob asks carol")
    say(conn, "carol", "I know")
    say(conn, "bob", "carol knows")
    say(conn, "alice", "carol knows, says bob")
    assert column(conn, "SELECT message FROM responses ORDER BY id") == [
        *("I ask bob", "bob asks carol", "carol knows, says bob")
    ]
    assert not ready_sessions.find(conn, now_ms=NOW)
    counts = column(conn, "SELECT content ->> '$.hops' FROM messages WHERE channel = 'internal' ORDER BY id")
    assert counts == [1, 2, 2, 3, 2]


def test_a_question_because_of_an_answer_is_for_the_same_person(conn):
    put(conn, "find out", agent="alice")
    ask(conn, "alice", "bob", "do you know?")
    say(conn, "bob", "ask carol")
    ask(conn, "alice", "carol", "do you know?")
    say(conn, "carol", "yes")
    say(conn, "alice", "carol knows")
    assert column(conn, "SELECT message FROM responses ORDER BY id") == ["I ask bob", "I ask carol", "carol knows"]
    assert column(conn, "SELECT DISTINCT in_reply_to FROM responses") == [1]


def test_two_people_with_the_same_question_both_get_the_answer(conn):
    for chat in "12":
        put(conn, f"question {chat}", agent="alice", chat=chat)
        ask(conn, "alice", "bob", f"question {chat}")
    for chat in "12":
        (asked,) = say(conn, "bob", f"answer {chat}")
        assert asked.message == f"question {chat}"
    for chat in "12":
        say(conn, "alice", f"bob says {chat}")
    assert rows(conn, "SELECT platform_id, message FROM responses ORDER BY id")[2:] == [
        *(("1", "bob says 1"), ("2", "bob says 2"))
    ]


def test_messages_for_one_person_share_a_turn_and_for_two_do_not(conn):
    send(conn, "alice", "bob", "one")
    send(conn, "alice", "bob", "two")
    send(conn, "carol", "bob", "three")
    assert [message.message for message in say(conn, "bob", "yes")] == ["one", "two"]
    assert [message.message for message in say(conn, "bob", "no")] == ["three"]


def test_an_agent_whose_session_was_closed_gets_the_answer_in_its_mailbox(conn):
    put(conn, "ask bob", agent="alice")
    ask(conn, "alice", "bob", "well?")
    rows(conn, "UPDATE sessions SET status = 'closed' WHERE agent = 'alice'")
    say(conn, "bob", "well")
    session = row(conn, "messages")["session_id"]
    assert rows(conn, "SELECT agent, chat_id, status FROM sessions WHERE id = :id", {"id": session}) == [
        ("alice", None, "active")
    ]


def test_a_deleted_asker_gets_no_answer_and_the_turn_ends(conn):
    asked = send(conn, "alice", "bob")
    with transaction(conn):
        agents.delete(conn, "alice")
    with pytest.raises(NotFound, match="no agent 'alice'"):
        reply(conn, asked)
    say(conn, "bob", "well")
    assert rows(conn, MAIL) == [("bob", "alice", "hello")]


def test_an_answer_to_a_room_is_a_line_and_so_is_an_answer_asked_for_it(conn):
    team = Team("dev", "Dev", "alice", ("alice", "bob"))
    with transaction(conn):
        teams.save(conn, team, now_ms=NOW)
        rooms.post(conn, team, "who knows?", from_agent="bob", now_ms=NOW)
    ask(conn, "alice", "carol", "do you?")
    say(conn, "carol", "no")
    say(conn, "alice", "nobody")
    assert rows(conn, "SELECT from_agent, message FROM chat_messages ORDER BY id") == [
        *(("bob", "who knows?"), ("alice", "I ask carol"), ("alice", "nobody"))
    ]
    assert column(conn, "SELECT id FROM responses") == []
    assert not ready_sessions.find(conn, now_ms=NOW)


def test_a_reply_to_a_person_in_a_room_is_a_line(conn):
    """Where people read; a response would wait on a channel that nobody fetches."""
    team = Team("dev", "Dev", "alice", ("alice", "bob"))
    with transaction(conn):
        teams.save(conn, team, now_ms=NOW)
        rooms.post(conn, team, "who knows?", now_ms=NOW)
    (letter,) = consume(conn, "bob")
    sent = reply(conn, letter.message.id, "I do")
    assert rows(conn, "SELECT id, from_agent, message FROM chat_messages ORDER BY id")[1:] == [
        (sent.line, "bob", "I do")
    ]
    assert column(conn, "SELECT id FROM responses") == []
    with transaction(conn):
        teams.save(conn, team._replace(agents=("alice",)), now_ms=NOW)
    before = dump(conn)
    with pytest.raises(NotFound, match="agent 'bob' is no longer in a team 'dev'"):
        reply(conn, letter.message.id, "I did")
    assert dump(conn) == before


def test_the_asker_gets_a_sentence_when_the_question_is_dead(conn):
    send(conn, "alice", "bob")
    claim = begin(conn, "bob")
    with transaction(conn):
        turns.fail(conn, claim, Failure("broken", retryable=False), POLICY, now_ms=NOW)
    assert rows(conn, MAIL)[1] == ("alice", "bob", turns.APOLOGY)


def test_the_person_gets_a_sentence_when_the_answer_is_dead(conn):
    put(conn, "ask bob", agent="alice")
    ask(conn, "alice", "bob", "well?")
    say(conn, "bob", "well")
    claim = begin(conn, "alice")
    with transaction(conn):
        turns.fail(conn, claim, Failure("broken", retryable=False), POLICY, now_ms=NOW)
    assert column(conn, "SELECT message FROM responses ORDER BY id") == ["I ask bob", turns.APOLOGY]


def test_agents_that_write_to_each_other_without_end_are_stopped(conn):
    cause = send(conn, "alice", "bob")
    for count in range(1, hops.LIMIT + 1):
        cause = send(conn, ("bob", "alice")[count % 2 - 1], ("alice", "bob")[count % 2 - 1], because=cause)
    before = dump(conn)
    with pytest.raises(WrongState, match="9 times because of one message"):
        send(conn, "bob", "alice", because=cause)
    with pytest.raises(WrongState, match="9 times"):
        reply(conn, cause)
    assert dump(conn) == before


def test_replies_are_counted_as_well(conn):
    last = send(conn, "alice", "bob")
    for _ in range(hops.LIMIT):
        last = reply(conn, last).message
    with pytest.raises(WrongState, match="9 times"):
        reply(conn, last)
    assert column(conn, "SELECT count(*) FROM messages") == [hops.LIMIT + 1]


def test_the_last_allowed_question_is_still_answered(conn):
    """Whoever may ask may also be answered: nobody waits for ever."""
    asked = send(conn, "alice", "bob")
    rows(conn, "UPDATE messages SET content = json_set(content, '$.hops', :limit)", {"limit": hops.LIMIT})
    say(conn, "bob", "well")
    assert row(conn, "messages")["reply_to"] == asked


def test_an_outside_channel_called_internal_is_answered_there(conn):
    put(conn, "hello", agent="bob")
    for channel in ("internal", "chatroom"):
        rows(conn, "UPDATE messages SET channel = :channel, status = 'pending'", {"channel": channel})
        say(conn, "bob", "hello")
        assert row(conn, "responses")["channel"] == channel


@pytest.mark.parametrize("seed", range(4))
def test_any_exchange_between_agents_ends_and_leaves_no_question_open(conn, seed):
    """At random they ask each other in their turns, reply, and read their mail themselves."""
    dice = random.Random(seed)
    names = ("alice", "bob", "carol")
    put(conn, "begin", agent="alice")
    put(conn, "begin", agent="bob", chat="2")
    steps, now_ms = 0, NOW
    while found := ready_sessions.find(conn, now_ms=now_ms):
        steps, now_ms = steps + 1, now_ms + 1
        agent = dice.choice(found).agent
        claim = begin(conn, agent, now_ms)
        cause = dice.choice(claim.batch)
        if dice.random() < 0.6:
            with contextlib.suppress(WrongState):
                other = dice.choice([name for name in names if name != agent])
                send(conn, agent, other, f"question {steps}", because=cause.id, now_ms=now_ms)
        if dice.random() < 0.2:
            with contextlib.suppress(WrongState):
                reply(conn, cause.id, f"reply {steps}", now_ms=now_ms)
        if dice.random() < 0.2:
            consume(conn, agent, now_ms)
        end(conn, claim, f"answer {steps}", now_ms)
        assert steps < 2000
    assert column(conn, "SELECT DISTINCT status FROM messages") == ["completed"]
    assert column(conn, "SELECT max(content ->> '$.hops') <= :most FROM messages", most=hops.LIMIT + 1) == [1]
    unanswered = """
        SELECT q.id
          FROM messages q
         WHERE q.channel = 'internal' AND q.from_agent IS NOT NULL AND q.content ->> '$.is_answer' IS NULL
           AND NOT EXISTS (SELECT 1 FROM messages a WHERE a.reply_to = q.id)
           AND NOT EXISTS (SELECT 1 FROM events e WHERE e.message_id = q.message_id AND e.type = 'message_consumed')
           AND NOT EXISTS (SELECT 1
                             FROM events e, json_each(e.data, '$.batch') b
                            WHERE e.type = 'chain_step_done' AND b.value = q.message_id)
    """
    assert column(conn, unanswered) == []
    twice = "SELECT message_id FROM agent_messages WHERE role = 'user' GROUP BY message_id HAVING count(*) > 1"
    assert column(conn, twice) == []
