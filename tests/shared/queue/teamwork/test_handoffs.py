import json

import pytest

from shared.agents.answer_tags import ToDestination, ToTeam, ToTeammates
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, polled_channels
from shared.db.roster import destinations, teams
from shared.db.roster.teams import Team
from shared.queue import turns
from shared.queue.teamwork import chains
from shared.queue.teamwork.chains import MailLimits
from shared.queue.turns import TurnReply
from tests.support import LEASE, NOW, column, make_agent, make_chat, put, row, take, wire

SAID = "SELECT message FROM responses ORDER BY id"
MAIL = "SELECT agent, from_agent, message FROM messages WHERE channel = 'internal' AND kind = 'chat' ORDER BY id"
NOTES = "SELECT agent, message, trigger, kind FROM messages WHERE kind = 'system' ORDER BY id"


@pytest.fixture
def team(conn):
    """Assistant (in chat 100), bob and eve work together; mallory is in no team."""
    for agent in ("bob", "eve", "mallory"):
        make_agent(conn, agent)
    wire(conn, make_chat(conn))
    with transaction(conn):
        teams.save(conn, Team("dev", "Dev", "assistant", ("assistant", "bob", "eve")), now_ms=NOW)


def answer(conn, text, *tags, limits=chains.LIMITS, **message):
    put(conn, "please", **message)
    claim = take(conn)
    with transaction(conn):
        turns.settle(
            conn, claim, [TurnReply(text, claim.asked[0], tags, said="whole")], None, limits=limits, now_ms=NOW
        )


def to_chat(conn, name, chat):
    chat_id = make_chat(conn, chat)
    with transaction(conn):
        return destinations.put(conn, "assistant", name=name, chat=chat_id, now_ms=NOW)


def test_a_text_goes_to_a_named_chat_and_the_rest_to_the_person(conn, team):
    to_chat(conn, "family", "200")
    answer(conn, "Done.", ToDestination("Family", "Dinner at 7"))
    assert rows(conn, "SELECT platform_id, chat_id, message, in_reply_to FROM responses ORDER BY id") == [
        ("200", make_chat(conn, "200"), "Dinner at 7", None),
        ("100", make_chat(conn), "Done.", 1),
    ]
    assert column(conn, "SELECT content FROM agent_messages WHERE role = 'assistant'") == ["whole"]


def test_a_text_for_the_chat_of_the_question_is_the_answer_in_its_topic(conn, team):
    to_chat(conn, "here", "100")
    put(conn, "please", thread="7")
    claim = take(conn, thread="7")
    with transaction(conn):
        said = [TurnReply("", claim.asked[0], (ToDestination("here", "Hello"),))]
        turns.settle(conn, claim, said, None, now_ms=NOW)
    assert rows(conn, "SELECT platform_id, thread_id, message FROM responses") == [("100", "7", "Hello")]


def test_teammates_read_what_all_may_read_and_their_own(conn, team):
    answer(conn, "The build is red.", ToTeammates(("bob", "Eve"), "find out why"))
    text = "The build is red.\n\n------\n\nDirected to you:\nfind out why"
    assert rows(conn, MAIL) == [("bob", "assistant", text), ("eve", "assistant", text)]
    assert column(conn, SAID) == ["The build is red."]
    assert column(conn, "SELECT type FROM events WHERE type = 'chain_handoff'") == ["chain_handoff"] * 2


def test_a_person_is_told_where_an_answer_went_that_is_only_for_others(conn, team):
    answer(conn, "", ToTeammates(("bob",), "find out why"))
    assert column(conn, SAID) == ["(Passed on to @bob.)"]


def test_a_text_for_a_team_is_a_line_of_its_room(conn, team):
    answer(conn, "Told them.", ToTeam("dev", "shipped"))
    assert rows(conn, "SELECT team_id, from_agent, message FROM chat_messages") == [("dev", "assistant", "shipped")]
    assert column(conn, "SELECT agent FROM messages WHERE channel = 'chatroom' ORDER BY agent") == ["bob", "eve"]


FORBIDDEN = {
    "an unknown destination": (ToDestination("boss", "secret"), "“boss”"),
    "an agent outside its teams": (ToTeammates(("mallory",), "secret"), "@mallory"),
    "a team of others": (ToTeam("ops", "secret"), "#ops"),
    "itself": (ToTeammates(("assistant",), "secret"), "@assistant"),
}


@pytest.mark.parametrize(("tag", "shown"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_what_may_not_be_sent_is_not_lost(conn, team, tag, shown):
    with transaction(conn):
        teams.save(conn, Team("ops", "Ops", "mallory", ("mallory",)), now_ms=NOW)
    answer(conn, "Sent!", tag)
    (said,) = column(conn, SAID)
    assert said == f"Sent!\n\nMy message to {shown} was not sent: I can't write there."
    assert rows(conn, MAIL) == []
    ((agent, note, trigger, kind),) = rows(conn, NOTES)
    assert (agent, trigger, kind) == ("assistant", 0, "system")
    assert note.startswith(f"Your message to {shown} was not sent: ")
    assert note.endswith("It was:\nsecret")
    assert column(conn, "SELECT content ->> '$.origin' FROM messages WHERE kind = 'system'") == [
        column(conn, "SELECT message_id FROM messages WHERE id = 1")[0]
    ]
    event = row(conn, "events", column(conn, "SELECT id FROM events WHERE type = 'handoff_refused'")[0])
    assert json.loads(event["data"]) == {"from_agent": "assistant", "texts": 1}


def test_the_agent_reads_with_its_next_turn_what_was_not_sent(conn, team):
    answer(conn, "Sent!", ToDestination("boss", "secret"))
    put(conn, "and now?")
    claim = take(conn, token="turn_b")
    assert [(each.sender, each.trigger) for each in claim.batch] == [("postroom", False), ("Ana", True)]


def test_beyond_a_limit_everything_else_of_the_turn_is_kept(conn, team):
    answer(conn, "Asked.", ToTeammates(("bob",), "a"), ToTeammates(("eve",), "b"), limits=MailLimits(total=1))
    agent, _, text = rows(conn, MAIL)[0]
    assert (agent, text.endswith("Directed to you:\na")) == ("bob", True)
    end = "Not all that the agents wrote to each other because of this was sent: agents have sent 1 messages because"
    assert column(conn, SAID) == [f"{end} of one message.", "Asked."]
    assert column(conn, "SELECT status FROM messages WHERE id = 1") == ["completed"]


def test_a_client_that_polls_is_told_that_a_message_got_no_answer_of_its_own(conn, team):
    with transaction(conn):
        polled_channels.add(conn, "whatsapp", now_ms=NOW)
    answer(conn, "ok", ToDestination("boss", "x"))
    assert len(column(conn, SAID)) == 1


def test_the_names_of_an_agents_other_chats_are_told_to_the_agent_alone(conn, team):
    to_chat(conn, "family", "200")
    answer(conn, "", ToDestination("boss", "x"))
    assert "family" not in column(conn, SAID)[0]
    assert "family" in rows(conn, NOTES)[0][1]


def test_one_answer_goes_to_so_many_places_and_no_more(conn, team):
    answer(conn, "", *[ToTeammates(("bob",), str(number)) for number in range(60)])
    assert len(rows(conn, MAIL)) == 50
    said = column(conn, SAID)[0]
    assert said.count("one answer can go to 50 places at most") == 5
    assert said.endswith("5 more were not sent either.")


class Counted(ToTeammates):
    """Counts how often a text is looked at."""

    looks = 0

    @property
    def text(self):
        Counted.looks += 1
        return self[1]


def test_an_answer_with_ever_so_many_tags_does_not_hold_the_database(conn, team):
    """They are counted, and not looked at; the transaction that settles the turn is short."""
    Counted.looks = 0
    answer(conn, "", *[Counted(("bob",), "x")] * 30_000)
    assert Counted.looks < 2000
    assert column(conn, SAID)[0].endswith("29945 more were not sent either.")
    assert rows(conn, "SELECT data ->> '$.texts' FROM events WHERE type = 'handoff_refused'") == [(29_950,)]


@pytest.mark.parametrize("tag", [ToTeammates(("Assistant",), "7"), ToDestination("boss", "7")])
def test_what_goes_to_the_agent_that_asked_is_the_answer(conn, team, tag):
    with transaction(conn):
        destinations.put(conn, "bob", name="boss", target_agent="assistant", now_ms=NOW)
    answer(conn, "", ToTeammates(("bob",), "how many?"))
    ((session,),) = rows(conn, "SELECT session_id FROM messages WHERE agent = 'bob'")
    with transaction(conn):
        claim = claims.claim(conn, "bob", session, token="t", now_ms=NOW, lease_ms=LEASE, limit=10)
        turns.settle(conn, claim, [TurnReply("I counted.", claim.asked[0], (tag,))], None, now_ms=NOW)
    assert rows(conn, f"{MAIL} LIMIT -1 OFFSET 1") == [("assistant", "bob", "I counted.\n\n7")]
    assert column(conn, "SELECT content ->> 'is_answer' FROM messages WHERE from_agent = 'bob'") == [1]
