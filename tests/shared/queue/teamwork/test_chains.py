"""The limits of what agents write to each other, and who is told of an end."""

import contextlib

import pytest

from shared.agents.answer_tags import ToTeammates
from shared.db.engine.connection import rows, transaction
from shared.db.queue import chains as chain_rows
from shared.db.queue import claims, ready_sessions
from shared.db.roster import agents, teams
from shared.db.roster.teams import Team
from shared.queue import turns
from shared.queue.teamwork import chain_ends, mailbox, rooms
from shared.queue.teamwork.chains import MailLimits, MailRefused
from shared.queue.turns import TurnReply
from tests.support import LEASE, NOW, column, dump, make_agent, plan, put

SPOKES = ("alice", "bob", "carol")
DAY = 24 * 60 * 60 * 1000
STATUSES = "SELECT agent, from_agent, message FROM messages WHERE msg_type = 'status' ORDER BY agent"
ENDED = "agents have sent 100 messages because of one message"


@pytest.fixture(autouse=True)
def crew(conn):
    for name in ("hub", *SPOKES):
        make_agent(conn, name)


def send(conn, sender, recipient, because=None, now_ms=NOW, **limits):
    with transaction(conn):
        return mailbox.send(
            conn, sender, recipient, "go on", because=because, limits=MailLimits(**limits), now_ms=now_ms
        )


def write(conn, sender, recipient, because, now_ms, **limits):
    """As over REST: whoever is refused knows it, and the others are told."""
    try:
        send(conn, sender, recipient, because, now_ms, **limits)
    except MailRefused as refused:
        with transaction(conn):
            chain_ends.tell(conn, refused, now_ms=now_ms)


def run(conn, act):
    """Turns of all agents, until nothing is left to do; in each, *act* does what the agent does with each message."""
    count, now_ms = 0, NOW
    while found := ready_sessions.find(conn, now_ms=now_ms):
        count, now_ms = count + 1, now_ms + 2000
        assert count < 1000, "this never ends"
        with transaction(conn):
            claim = claims.claim(
                conn, found[0].agent, found[0].session_id, token="t", now_ms=now_ms, lease_ms=LEASE, limit=10
            )
        for each in claim.asked:
            act(claim.agent, each, now_ms)
        with transaction(conn):
            turns.settle(conn, claim, [TurnReply("done", claim.asked[0])], None, now_ms=now_ms)
    return count


def test_a_hub_and_its_spokes_end_and_everybody_is_told_once(conn):
    put(conn, "begin", agent="hub")

    def act(agent, message, now_ms):
        for other in SPOKES if agent == "hub" else ("hub",):
            write(conn, agent, other, message.id, now_ms)

    run(conn, act)
    mail = "msg_type = 'message' AND channel = 'internal'"
    (sent,) = column(conn, f"SELECT count(*) FROM messages WHERE {mail} AND content ->> 'is_answer' IS NULL")
    assert 50 <= sent < 100
    assert column(conn, "SELECT sent FROM chains") == column(conn, f"SELECT count(*) FROM messages WHERE {mail}")
    told = rows(conn, STATUSES)
    assert len({agent for agent, *_ in told}) == len(told) == 3
    assert all(ENDED in text for *_, text in told)
    said = column(conn, "SELECT message FROM responses WHERE message <> 'done'")
    assert said == [f"Not all that the agents wrote to each other because of this was sent: {ENDED}."]


PAIR = {"alice": ToTeammates(("bob",), "go on"), "bob": ToTeammates(("alice",), "go on")}


@pytest.mark.parametrize("words", ["working on it", ""])
def test_two_agents_that_tag_each_other_end_soon_and_the_person_reads_one_copy(conn, words):
    with transaction(conn):
        teams.save(conn, Team("dev", "Dev", "alice", ("alice", "bob")), now_ms=NOW)
    put(conn, "go", agent="alice")
    count, now_ms = 0, NOW
    while found := ready_sessions.find(conn, now_ms=now_ms):
        count, now_ms = count + 1, now_ms + 2000
        assert count <= 12, column(conn, "SELECT message FROM messages")
        with transaction(conn):
            claim = claims.claim(
                conn, found[0].agent, found[0].session_id, token=f"t{count}", now_ms=now_ms, lease_ms=LEASE, limit=10
            )
            said = TurnReply(words, claim.asked[0], (PAIR[claim.agent],))
            turns.settle(conn, claim, [said], None, now_ms=now_ms)
    assert column(conn, "SELECT max(seen) FROM (SELECT count(*) AS seen FROM responses GROUP BY message)") == [1]
    assert column(conn, "SELECT message FROM responses ORDER BY id")[0] == (words or "(Passed on to @bob.)")
    assert column(conn, "SELECT count(*) FROM responses") == [2]  # and one sentence about the end


def test_answers_count(conn):
    first = put(conn, "begin", agent="hub")
    send(conn, "hub", "alice", first)
    with transaction(conn):
        (found,) = [each for each in ready_sessions.find(conn, now_ms=NOW) if each.agent == "alice"]
        claim = claims.claim(conn, "alice", found.session_id, token="t", now_ms=NOW, lease_ms=LEASE, limit=10)
        turns.settle(conn, claim, [TurnReply("42", claim.asked[0])], None, now_ms=NOW)
    assert column(conn, "SELECT sent FROM chains") == [2]


def test_a_ring_ends_by_its_hops_and_everybody_is_told_once(conn):
    put(conn, "begin", agent="hub")
    following = dict(zip(("hub", *SPOKES), (*SPOKES, "hub"), strict=True))

    def act(agent, message, now_ms):
        if not message.content.get("is_answer"):
            write(conn, agent, following[agent], message.id, now_ms)

    run(conn, act)
    told = rows(conn, STATUSES)
    assert len({agent for agent, *_ in told}) == len(told) == 3
    assert len(column(conn, "SELECT id FROM responses WHERE message LIKE '%9 times because of one message.'")) == 1


def test_a_question_of_the_operator_that_ends_is_told_to_the_operator(conn):
    first = send(conn, "operator", "hub")
    write(conn, "hub", "bob", first, NOW, total=1)
    write(conn, "hub", "bob", first, NOW, total=1)
    assert rows(conn, "SELECT channel, sender FROM responses") == [("internal", "operator")]
    assert [agent for agent, *_ in rows(conn, STATUSES)] == ["bob"]


def test_an_agent_that_began_is_told_as_an_agent(conn):
    first = send(conn, "alice", "hub")
    write(conn, "hub", "bob", first, NOW, total=1)
    write(conn, "hub", "bob", first, NOW, total=1)
    assert [agent for agent, *_ in rows(conn, STATUSES)] == ["alice", "bob"]
    assert column(conn, "SELECT id FROM responses") == []


def test_an_end_in_a_room_is_a_line_of_the_room(conn):
    team = Team("dev", "Dev", "hub", ("hub", "alice"))
    with transaction(conn):
        teams.save(conn, team, now_ms=NOW)
        rooms.post(conn, team, "who knows?", now_ms=NOW)
    (first,) = column(conn, "SELECT id FROM messages WHERE agent = 'hub'")
    write(conn, "hub", "bob", first, NOW, total=1)
    write(conn, "hub", "bob", first, NOW, total=1)
    lines = rows(conn, "SELECT from_agent, message FROM chat_messages ORDER BY id")
    assert len(lines) == 2
    assert (lines[1][0], "because of one message" in lines[1][1]) == ("hub", True)


def test_a_person_is_told_after_their_message_is_pruned(conn):
    first = put(conn, "begin", agent="hub")
    second = send(conn, "hub", "bob", first)
    rows(conn, "DELETE FROM messages WHERE id = ?", (first,))
    write(conn, "bob", "carol", second, NOW, total=1)
    assert rows(conn, "SELECT platform_id, original_message FROM responses") == [("100", "begin")]


def test_who_joins_after_the_end_is_told_too_and_nobody_twice(conn):
    first = put(conn, "begin", agent="hub")
    send(conn, "hub", "alice", first, total=1)
    for recipient in ("alice", "bob", "bob", "alice"):
        write(conn, "hub", recipient, first, NOW, total=1)
    assert [agent for agent, *_ in rows(conn, STATUSES)] == ["alice", "bob"]
    assert column(conn, "SELECT count(*) FROM responses") == [1]


def test_a_status_of_an_end_does_not_revive_the_chain(conn):
    first = put(conn, "begin", agent="hub")
    send(conn, "hub", "alice", first, total=1)
    write(conn, "hub", "alice", first, NOW, total=1)
    (status,) = column(conn, "SELECT id FROM messages WHERE msg_type = 'status'")
    with pytest.raises(MailRefused):
        send(conn, "alice", "bob", status, total=1)


def test_a_retired_agent_is_not_told(conn):
    first = put(conn, "begin", agent="hub")
    send(conn, "hub", "alice", first, total=1)
    with transaction(conn):
        agents.retire(conn, "alice", now_ms=NOW)
    write(conn, "hub", "bob", first, NOW, total=1)
    assert [agent for agent, *_ in rows(conn, STATUSES)] == ["bob"]


def test_chains_of_two_messages_are_counted_apart(conn):
    for chat in "12":
        first = put(conn, "begin", agent="hub", chat=chat)
        for spoke in SPOKES:
            send(conn, "hub", spoke, first, total=3)
    assert column(conn, "SELECT sent FROM chains") == [3, 3]


def test_an_answer_is_never_refused_and_carries_its_chain(conn):
    first = put(conn, "begin", agent="hub")
    asked = send(conn, "hub", "alice", first, total=1)
    with transaction(conn):
        (found,) = [each for each in ready_sessions.find(conn, now_ms=NOW) if each.agent == "alice"]
        claim = claims.claim(conn, "alice", found.session_id, token="t", now_ms=NOW, lease_ms=LEASE, limit=10)
        turns.settle(conn, claim, [TurnReply("42", claim.asked[0])], None, now_ms=NOW)
    (answer,) = column(conn, "SELECT id FROM messages WHERE reply_to = :asked", asked=asked)
    with pytest.raises(MailRefused):
        send(conn, "hub", "bob", answer, total=1)


REFUSED = {
    "hops": ({"hops": 0}, "0 times because of one message"),
    "in all": ({"total": 1}, "1 messages because of one message"),
    "within a minute": ({"rate": 1}, "hub and bob have exchanged 1 messages within a minute"),
}


@pytest.mark.parametrize(("limits", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_refused_message_leaves_nothing(conn, limits, reason):
    first = put(conn, "begin", agent="hub")
    with contextlib.suppress(MailRefused):
        send(conn, "hub", "bob", first, **limits)
    before = dump(conn)
    with pytest.raises(MailRefused, match=reason):
        send(conn, "hub", "bob", first, **limits)
    assert dump(conn) == before


def test_a_limit_of_zero_is_none(conn):
    first = put(conn, "begin", agent="hub")
    for _ in range(130):
        send(conn, "hub", "bob", first, total=0, rate=0)
    assert column(conn, "SELECT sent FROM chains") == [130]


def test_the_operator_writes_without_a_limit(conn):
    for _ in range(3):
        send(conn, "operator", "bob", total=1, rate=1)
    assert column(conn, "SELECT count(*) FROM messages") == [3]


def test_a_chain_is_forgotten_a_day_after_its_last_message(conn):
    first = put(conn, "begin", agent="hub")
    for at in (NOW, NOW + DAY):
        send(conn, "hub", "bob", first, now_ms=at)

    def prune(now_ms):
        with transaction(conn):
            return chain_rows.prune(conn, older_than_ms=now_ms - chain_rows.KEPT_MS, limit=9)

    assert prune(NOW + 2 * DAY) == 0
    assert prune(NOW + 2 * DAY + 1) == 1
    assert column(conn, "SELECT count(*) FROM chain_agents") == [0]


def test_pruning_reads_old_chains_only(conn):
    steps = plan(conn, "SELECT origin FROM chains WHERE last_active < 1 ORDER BY last_active LIMIT 9")
    assert any("chains_by_age (last_active<?)" in step for step in steps), steps
