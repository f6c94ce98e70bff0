import json

import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, sessions
from shared.db.roster import agent_pauses, teams
from shared.db.roster.teams import Team
from shared.queue.teamwork import chains, mailbox
from shared.queue.teamwork.chains import MailLimits
from tests.shared.turns.tools.calls import Running, let_send, process_on, running, team_mate
from tests.support import LEASE, NOW, column, dump, make_agent, make_chat, put, row, take


def mail(conn, sender, recipient, text, **more):
    with transaction(conn):
        return mailbox.send(conn, sender, recipient, text, now_ms=NOW, **more)


def test_a_message_for_another_agent_asks_for_a_turn_and_its_answer_comes_back_here(conn, db):
    with running(conn, db) as turn:
        team_mate(conn)
        answer = turn.say("send_to_agent", agent="bob", text="what is 6 x 7?")
        assert answer == "Sent to agent bob. Its answer comes as a message of its own."
        assert "dispatch" in turn.process.kicked
    sent = row(conn, "messages")
    assert (sent["agent"], sent["from_agent"], sent["message"]) == ("bob", "assistant", "what is 6 x 7?")
    assert json.loads(sent["content"])["asker"] == turn.claim.session_id


@pytest.mark.parametrize("name", ["carol", "assistant", "@bob", "Bob", "../bob", "operator", "chat-1"])
def test_no_agent_but_destinations_and_teammates_can_be_written_to(conn, db, name):
    make_agent(conn, "carol")  # exists, and is no destination
    with running(conn, db) as turn:
        team_mate(conn)
        before = dump(conn)
        assert turn.refusal("send_to_agent", agent=name, text="x").startswith(
            f"'{name}' is a chat" if name == "chat-1" else f"you have no destination '{name}'"
        )
        assert dump(conn) == before


def test_a_teammate_can_be_written_to_without_a_destination(conn, db):
    for name in ("bob", "carol"):
        make_agent(conn, name)
    with running(conn, db) as turn:
        with transaction(conn):
            teams.save(conn, Team("dev", "Dev", "assistant", ("assistant", "bob")), now_ms=NOW)
        assert turn.say("send_to_agent", agent="bob", text="fix it", within="30m").startswith("Sent to agent bob.")
        assert turn.refusal("send_to_agent", agent="carol", text="x").startswith("you have no destination 'carol'")
        assert turn.refusal("send_to_agent", agent="assistant", text="x").startswith("you have no destination")
    assert column(conn, "SELECT agent FROM messages WHERE from_agent = 'assistant'") == ["bob"]


def test_the_agent_that_asked_reads_the_answer_and_is_not_written_to(conn, db):
    for name in ("assistant", "bob"):
        make_agent(conn, name)
    let_send(conn, "assistant", target_agent="bob")
    mail(conn, "bob", "assistant", "how many?")
    with transaction(conn):
        session = sessions.ensure(conn, "assistant", None, None, now_ms=NOW)
        claim = claims.claim(conn, "assistant", session, token="t", now_ms=NOW, lease_ms=LEASE, limit=10)
    with process_on(db) as process:
        assert Running(process, db, claim).refusal("send_to_agent", agent="bob", text="7") == (
            "agent 'bob' asked you, and reads the answer of this turn: say it there"
        )


def test_a_loop_of_agents_is_cut_and_the_others_are_told(conn, db):
    with running(conn, db) as turn:
        team_mate(conn)
        limits = MailLimits(total=1)
        with transaction(conn):
            chains.extend(conn, turn.claim.batch[0], "assistant", ("bob",), limits=limits, now_ms=NOW)
        turn.box._limits = limits
        assert turn.refusal("send_to_agent", agent="bob", text="again").endswith("this message was not sent")
    assert column(conn, "SELECT from_agent FROM messages WHERE msg_type = 'status'") == ["assistant"]


def test_an_agent_takes_the_mail_of_this_conversation_and_no_other(conn, db):
    """An answer that waits in Ben's conversation is for Ben: taken from here, he would never get it."""
    with running(conn, db) as turn, running(conn, db, chat="300") as other:
        team_mate(conn)
        asked = mail(conn, "assistant", "bob", "for Ana?", because=turn.claim.batch[0].id)
        also = mail(conn, "assistant", "bob", "for Ben?", because=other.claim.batch[0].id)
        with transaction(conn):
            mailbox.reply(conn, asked, "Ana's answer", now_ms=NOW)
            mailbox.reply(conn, also, "Ben's answer", now_ms=NOW)
        taken = turn.say("consume_messages")
        assert "Ana's answer" in taken
        assert "Ben's answer" not in taken
        assert turn.say("consume_messages") == "No message of another agent waits for you in this conversation."
    waiting = "SELECT message FROM messages WHERE agent = 'assistant' AND channel = 'internal' AND status = 'pending'"
    assert column(conn, waiting) == ["Ben's answer"]


def test_the_people_of_the_conversation_keep_their_messages(conn, db):
    with running(conn, db) as turn:
        assert turn.say("consume_messages").startswith("No message")
    assert column(conn, "SELECT status FROM messages") == ["processing"]


def test_destinations_are_listed_by_the_names_that_the_tools_take(conn, db):
    with running(conn, db) as turn:
        team_mate(conn)
        let_send(conn, chat=make_chat(conn, "-200", is_group=True))
        listed = turn.say("list_destinations").splitlines()
    assert listed == [
        "bob: agent Bob (send_to_agent)",
        f"chat-{turn.claim.batch[0].chat_id}: direct chat on telegram, this conversation (send_message)",
        "chat-2: group on telegram (send_message)",
    ]
    assert "-200" not in "".join(listed)


def test_nothing_of_other_agents_destinations_is_listed(conn, db):
    with running(conn, db) as turn:
        team_mate(conn)
        let_send(conn, "bob", chat=make_chat(conn, "-300"))
        assert len(turn.say("list_destinations").splitlines()) == 2


def test_reading_marks_nothing_as_done(conn, db):
    with running(conn, db) as turn:
        turn.say("list_destinations")
        assert turn.say("consume_messages").startswith("No message")
    assert rows(conn, "SELECT spoken FROM messages") == [(None,)]
    assert sessions.get(conn, turn.claim.session_id) is not None


def team_of(conn, leader="assistant", *members):
    with transaction(conn):
        teams.save(conn, Team("dev", "Dev", leader, (leader, *members)), now_ms=NOW)


def test_a_deadline_wakes_the_agent_in_this_conversation(conn, db):
    with running(conn, db) as turn:
        team_mate(conn)
        answer = turn.say("send_to_agent", agent="bob", text="look", within="30m")
    assert answer.endswith("If there is none within 30m, you are woken.")
    wake = row(conn, "messages", column(conn, "SELECT id FROM messages WHERE kind = 'system'")[0])
    assert (wake["agent"], wake["session_id"], wake["process_after"], wake["trigger"]) == (
        *("assistant", turn.claim.session_id, NOW + 1_800_000, 1),
    )


REFUSED = {
    "no duration": ({"within": "soon"}, "argument 'within': 'soon' is not a duration"),
    "too short": ({"within": "1s"}, "a deadline is from 10 s to 30 days away"),
    "of what gets no answer": ({"within": "30m", "kind": "status"}, "a status gets no answer, so it has no deadline"),
}


@pytest.mark.parametrize(("given", "why"), REFUSED.values(), ids=REFUSED)
def test_a_deadline_that_means_nothing_is_refused(conn, db, given, why):
    with running(conn, db) as turn:
        team_mate(conn)
        before = dump(conn)
        assert turn.refusal("send_to_agent", agent="bob", text="look", **given).startswith(why)
        assert dump(conn) == before


def test_a_leader_sees_who_works_on_what(conn, db):
    minute = 60_000
    with running(conn, db) as turn:
        team_mate(conn)
        for agent in ("carl", "eve"):
            make_agent(conn, agent)
        team_of(conn, "assistant", "bob", "carl", "eve")
        turn.say("send_to_agent", agent="bob", text="find out why it is red", within="30m")
        session = column(conn, "SELECT session_id FROM messages WHERE agent = 'bob'")[0]
        with transaction(conn):
            claims.claim(conn, "bob", session, token="b", now_ms=NOW + minute, lease_ms=LEASE, limit=10)
        turn.say("send_to_agent", agent="bob", text="then fix it")
        put(conn, "a secret of Ben", agent="carl", chat="300")
        take(conn, agent="carl", chat="300", token="c", now_ms=NOW + 2 * minute)
        with transaction(conn):
            agent_pauses.pause(conn, "eve", "auth", "the key is wrong: sk-123", until=None, now_ms=NOW)
        turn.now_ms = NOW + 4 * minute
        listed = turn.say("list_team")
    assert listed.splitlines() == [
        "Team dev (you lead it):",
        "- bob: has worked for 3 min on what you handed over; 1 waiting, the oldest for 4 min",
        "  - from you: “find out why it is red” (in work since 4 min, due in 26 min)",
        "  - from you: “then fix it” (waits since 4 min)",
        "- carl: has worked for 2 min on something else",
        "- eve: paused (auth)",
    ]
    assert "secret" not in listed


def test_what_is_late_is_said(conn, db):
    with running(conn, db) as turn:
        team_mate(conn)
        team_of(conn, "bob", "assistant")
        turn.say("send_to_agent", agent="bob", text="look", within="1m")
        turn.now_ms = NOW + 180_000
        assert turn.say("list_team").splitlines() == [
            "Team dev (bob leads it):",
            "- bob: does nothing now; 1 waiting, the oldest for 3 min",
            "  - from you: “look” (waits since 3 min, late by 2 min)",
        ]


def test_an_agent_alone_is_in_no_team(conn, db):
    with running(conn, db) as turn:
        assert turn.say("list_team") == "You are in no team."
