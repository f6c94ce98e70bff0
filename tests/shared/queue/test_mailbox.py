import contextlib
import json
import random

import apsw
import pytest

from shared.core import hops
from shared.core.errors import NotFound, WrongState
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, conversations, messages, ready_sessions
from shared.db.roster import agents, teams
from shared.db.roster.teams import Team
from shared.queue import mailbox, rooms, turns
from shared.queue.turns import Failure, RetryPolicy, TurnReply
from tests.forks import outcomes
from tests.support import LEASE, NOW, column, dump, make_agent, plan, put, row

POLICY = RetryPolicy(max_attempts=5, base_ms=5000, cap_ms=300_000, jitter=0.0)
MAIL = "SELECT agent, from_agent, message FROM messages WHERE channel = 'internal' ORDER BY id"


@pytest.fixture(autouse=True)
def crew(conn):
    for name in ("alice", "bob", "carol"):
        make_agent(conn, name)


def send(conn, sender, recipient, body="hello", now_ms=NOW, **more):
    with transaction(conn):
        return mailbox.send(conn, sender, recipient, body, now_ms=now_ms, **more)


def reply(conn, original, body="well", now_ms=NOW, **more):
    with transaction(conn):
        return mailbox.reply(conn, original, body, now_ms=now_ms, **more)


def consume(conn, agent, now_ms=NOW):
    with transaction(conn):
        return mailbox.consume(conn, agent, now_ms=now_ms)


def begin(conn, agent, now_ms=NOW):
    """The agent's next turn, or None."""
    for each in ready_sessions.find(conn, now_ms=now_ms):
        if each.agent == agent:
            with transaction(conn):
                return claims.claim(
                    conn, agent, each.session_id, token="turn_a", now_ms=now_ms, lease_ms=LEASE, limit=10
                )
    return None


def end(conn, claim, text, now_ms=NOW):
    with transaction(conn):
        turns.settle(conn, claim, [TurnReply(text, claim.asked[0])], None, now_ms=now_ms)


def say(conn, agent, text, now_ms=NOW):
    """The agent's next turn, in which it says *text*; the messages that it was about."""
    claim = begin(conn, agent, now_ms)
    end(conn, claim, text, now_ms)
    return claim.batch


def ask(conn, sender, recipient, text):
    """In its next turn, *sender* asks *recipient* and says that it does."""
    claim = begin(conn, sender)
    asked = send(conn, sender, recipient, text, because=claim.batch[0].id)
    end(conn, claim, f"I ask {recipient}")
    return asked


# -- send, reply, threads


def test_a_message_waits_in_the_recipients_mailbox_session(conn):
    first = row(conn, "messages", send(conn, "alice", "bob"))
    second = row(conn, "messages", send(conn, "carol", "bob", msg_type="task", urgency="urgent"))
    assert (first["channel"], first["agent"], first["from_agent"], first["sender"]) == (
        *("internal", "bob", "alice", "alice"),
    )
    assert first["message_id"].startswith("internal_")
    assert (first["status"], first["msg_type"], first["urgency"]) == ("pending", "message", "normal")
    assert (second["msg_type"], second["urgency"]) == ("task", "urgent")
    assert first["session_id"] == second["session_id"]
    assert rows(conn, "SELECT agent, chat_id, thread_id FROM sessions") == [("bob", None, None)]
    handoff = row(conn, "events", column(conn, "SELECT min(id) FROM events WHERE type = 'chain_handoff'")[0])
    assert (handoff["message_id"], handoff["agent"]) == (first["message_id"], "bob")
    assert json.loads(handoff["data"]) == {"from_agent": "alice", "hops": 0}


def test_the_operator_is_no_agent(conn):
    assert row(conn, "messages", send(conn, "operator", "bob"))["from_agent"] is None
    assert column(conn, "SELECT type FROM events") == []


@pytest.mark.parametrize(("sender", "recipient"), [("alice", "ghost"), ("ghost", "bob"), ("alice", "operator")])
def test_an_unknown_agent_neither_sends_nor_receives(conn, sender, recipient):
    before = dump(conn)
    with pytest.raises(NotFound, match=r"no agent .*; known: alice, assistant, bob, carol"):
        send(conn, sender, recipient)
    assert dump(conn) == before


def test_what_an_agent_repeats_of_its_prompt_reaches_nobody(conn):
    """The operator's words stay as they are."""
    repeated = '<message id="telegram_1a2b3c4d" sender="Ana" time="2027-01-15T08:00:00+00:00">a &lt; b</message>'
    first, second = send(conn, "alice", "bob", repeated), send(conn, "operator", "bob", repeated)
    assert [row(conn, "messages", each)["message"] for each in (first, second)] == ["a < b", repeated]
    assert row(conn, "messages", reply(conn, first, repeated).message)["message"] == "a < b"
    assert row(conn, "responses", reply(conn, second, repeated).response)["message"] == "a < b"


def test_an_agent_can_not_write_to_itself(conn):
    with pytest.raises(WrongState, match="'alice' writes to itself"):
        send(conn, "alice", "alice")


@pytest.mark.parametrize("odd", [{"msg_type": "shout"}, {"urgency": "very"}])
def test_unknown_kinds_are_not_stored(conn, odd):
    before = dump(conn)
    with pytest.raises(apsw.ConstraintError):
        send(conn, "alice", "bob", **odd)
    assert dump(conn) == before


def test_replies_inherit_the_thread_and_return_to_the_sender(conn):
    root = send(conn, "alice", "bob", "one")
    send(conn, "carol", "bob", "another thread")
    second = reply(conn, root, "two").message
    third = reply(conn, second, "three", msg_type="status", urgency="urgent").message
    found = rows(conn, "SELECT id, agent, from_agent, reply_to, thread_root, msg_type, urgency FROM messages")
    assert found[2:] == [
        (second, "alice", "bob", root, root, "message", "normal"),
        (third, "bob", "alice", second, root, "status", "urgent"),
    ]
    for member in (root, second, third):
        assert [letter.message.message for letter in mailbox.thread(conn, member)] == ["one", "two", "three"]
    assert mailbox.thread(conn, 999) == []


def test_a_reply_quotes_its_message(conn):
    second = reply(conn, send(conn, "alice", "bob", "x" * 600)).message
    assert json.loads(row(conn, "messages", second)["content"])["reply_to"] == {"text": "x" * 500}


def test_a_reply_to_a_person_is_a_response_where_they_wrote(conn):
    put(conn, "question", agent="bob")
    sent = reply(conn, column(conn, "SELECT id FROM messages")[0], "answer")
    found = row(conn, "responses", sent.response)
    assert sent.message is None
    names = ("channel", "platform_id", "sender", "message", "original_message", "agent")
    assert [found[name] for name in names] == ["telegram", "100", "Ana", "answer", "question", "bob"]


def test_a_reply_to_the_operator_waits_to_be_fetched(conn):
    found = row(conn, "responses", reply(conn, send(conn, "operator", "bob")).response)
    assert (found["channel"], found["chat_id"], found["sender"], found["status"]) == (
        *("internal", None, "operator", "pending"),
    )


def test_a_reply_needs_an_existing_message(conn):
    with pytest.raises(NotFound, match="no message 999"):
        reply(conn, 999)


# -- what becomes of answers


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
    with pytest.raises(WrongState, match="12 times because of one message"):
        send(conn, "bob", "alice", because=cause)
    with pytest.raises(WrongState, match="12 times"):
        reply(conn, cause)
    assert dump(conn) == before


def test_replies_are_counted_as_well(conn):
    last = send(conn, "alice", "bob")
    for _ in range(hops.LIMIT):
        last = reply(conn, last).message
    with pytest.raises(WrongState, match="12 times"):
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


# -- conversations


def test_every_message_between_agents_has_a_conversation(conn):
    first = row(conn, "messages", send(conn, "alice", "bob"))["conversation_id"]
    assert first.startswith("conversation_")
    assert conversations.get(conn, first).status == "open"
    other = row(conn, "messages", send(conn, "alice", "bob"))["conversation_id"]
    assert other != first
    again = send(conn, "alice", "carol", conversation_id=first, now_ms=NOW + 7)
    assert row(conn, "messages", again)["conversation_id"] == first
    assert conversations.get(conn, first).last_active == NOW + 7
    because = send(conn, "carol", "bob", because=again)
    assert row(conn, "messages", because)["conversation_id"] == first


def test_a_message_to_a_closed_conversation_begins_a_new_one(conn):
    asked = send(conn, "alice", "bob")
    closed = row(conn, "messages", asked)["conversation_id"]
    with transaction(conn):
        conversations.close_idle(conn, idle_since_ms=NOW + 1, limit=9, now_ms=NOW + 1)
    say(conn, "bob", "late", now_ms=NOW + 2)
    fresh = row(conn, "messages")["conversation_id"]
    assert fresh != closed
    assert conversations.get(conn, closed).status == "closed"
    assert conversations.get(conn, fresh).status == "open"


# -- consume


def test_consume_takes_all_pending_messages_in_order_and_no_turn_runs_them(conn):
    send(conn, "alice", "bob", "one")
    put(conn, "from a person", agent="bob")
    send(conn, "operator", "bob", "two", urgency="urgent")
    send(conn, "alice", "carol", "for somebody else")
    taken = consume(conn, "bob", now_ms=NOW + 5)
    assert [(letter.message.message, letter.status, letter.updated_at) for letter in taken] == [
        *(("one", "completed", NOW + 5), ("two", "completed", NOW + 5))
    ]
    assert consume(conn, "bob") == []
    assert [message.message for message in say(conn, "bob", "hello")] == ["from a person"]
    assert begin(conn, "bob") is None
    assert rows(conn, "SELECT role, content FROM agent_messages ORDER BY id")[:2] == [("user", "one"), ("user", "two")]
    assert column(conn, "SELECT count(*) FROM events WHERE type = 'message_consumed'") == [2]


def test_an_expected_answer_can_be_consumed(conn):
    put(conn, "ask bob", agent="alice")
    ask(conn, "alice", "bob", "well?")
    say(conn, "bob", "well")
    assert [letter.message.message for letter in consume(conn, "alice")] == ["well"]
    assert begin(conn, "alice") is None


def test_posts_of_a_room_can_be_consumed(conn):
    team = Team("dev", "Dev", "alice", ("alice", "bob"))
    with transaction(conn):
        teams.save(conn, team, now_ms=NOW)
        rooms.post(conn, team, "hello", now_ms=NOW)
    assert [letter.message.message for letter in consume(conn, "bob")] == ["[Chat room #dev — @user]:\nhello"]


def test_claimed_and_planned_messages_are_not_consumed(conn):
    send(conn, "alice", "bob", "held")
    claim = begin(conn, "bob")
    later = send(conn, "alice", "bob", "later")
    rows(conn, "UPDATE messages SET process_after = :due WHERE id = :id", {"due": NOW + 1000, "id": later})
    assert consume(conn, "bob") == []
    end(conn, claim, "well")
    assert [letter.message.message for letter in consume(conn, "bob", now_ms=NOW + 1000)] == ["later"]


def test_a_message_that_waits_for_a_retry_can_be_consumed(conn):
    send(conn, "alice", "bob", "hard")
    claim = begin(conn, "bob")
    with transaction(conn):
        turns.fail(conn, claim, Failure("broken"), POLICY, now_ms=NOW)
    assert [letter.message.message for letter in consume(conn, "bob")] == ["hard"]
    assert row(conn, "messages", claim.batch[0].id)["last_error"] is None


def test_only_agents_have_a_mailbox(conn):
    with pytest.raises(NotFound, match="no agent 'ghost'"):
        consume(conn, "ghost")


def _consume_all(connection):
    taken, empty = [], 0
    while empty < 3:
        with transaction(connection):
            letters = mailbox.mailbox.consume(connection, "bob", now_ms=NOW, limit=3)
        taken += [letter.message.id for letter in letters]
        empty = 0 if letters else empty + 1
    return taken


def test_two_simultaneous_consumers_never_get_the_same_message(conn, db):
    sent = [send(conn, "alice", "bob", str(number)) for number in range(120)]
    got = outcomes(db, _consume_all, [()] * 3)
    assert sorted(id_ for each in got for id_ in each) == sent


# -- urgent, pruned, fast


def test_urgent_and_undelivered(conn):
    send(conn, "alice", "bob")
    first = send(conn, "alice", "bob", urgency="urgent")
    second = send(conn, "alice", "carol", urgency="urgent")
    assert mailbox.poll_urgent(conn) == [(first, "bob"), (second, "carol")]
    consume(conn, "carol")
    begin(conn, "bob")
    assert mailbox.poll_urgent(conn) == []


def test_the_newest_thousand_delivered_messages_stay_and_the_others_are_pruned(conn):
    old = []
    for number in range(3):
        old.append(send(conn, "alice", "bob", str(number)))
        consume(conn, "bob", now_ms=NOW + number)
    rows(
        conn,
        """
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 998)
        INSERT INTO messages (message_id, id_prefix, channel, sender, message, agent, from_agent, session_id, status,
                              created_at, updated_at)
        SELECT 'copy_' || i, 'internal', 'internal', 'alice', 'm', 'bob', 'alice', 1, 'completed', :now, :now + i FROM n
        """,
        {"now": NOW + 10},
    )
    waiting = send(conn, "alice", "bob", "unread")
    put(conn)  # the newest row stays whatever it is
    after = 0
    while True:
        with transaction(conn):
            _, after = messages.prune(conn, after_id=after, older_than_ms=NOW + 86_400_000, limit=500)
        if after == 0:
            break
    left = column(conn, "SELECT id FROM messages WHERE from_agent IS NOT NULL ORDER BY id")
    assert len(left) == 1000 + 1
    assert waiting in left
    assert [id_ in left for id_ in old] == [False, True, True]


QUERIES = {
    "consume": (mailbox.mailbox.CONSUME, {"agent": "bob", "now": NOW, "limit": 9}, "messages_open (agent=?)"),
    "poll_urgent": (mailbox.mailbox.POLL_URGENT, {"limit": 9}, "messages_urgent"),
    "thread": (mailbox.mailbox.THREAD, {"root": 1, "limit": 9}, "messages_thread (thread_root=?)"),
}


@pytest.mark.parametrize(("sql", "parameters", "index"), QUERIES.values(), ids=QUERIES)
def test_every_query_has_its_index(conn, sql, parameters, index):
    lines = plan(conn, sql, **parameters)
    assert any(index in line for line in lines), lines
    assert not any("SCAN messages" in line and index not in line for line in lines), lines


@pytest.mark.parametrize("table", ["messages", "conversations"])
def test_an_answer_that_can_not_be_stored_leaves_the_turn_unsettled(conn, table):
    send(conn, "alice", "bob")
    claim = begin(conn, "bob")
    verb = "INSERT ON" if table == "messages" else "UPDATE ON"
    rows(conn, f"CREATE TEMP TRIGGER broken BEFORE {verb} main.{table} BEGIN SELECT raise(ABORT, 'broken'); END")
    before = dump(conn)
    with pytest.raises(apsw.ConstraintError, match="broken"):
        end(conn, claim, "well")
    assert dump(conn) == before
