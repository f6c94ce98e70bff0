import apsw
import pytest

from shared.core import hops
from shared.core.errors import WrongState
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, mailbox
from shared.db.roster import teams
from shared.db.roster.teams import Team
from shared.queue.teamwork import chains, rooms
from tests.support import LEASE, NOW, column, dump, make_agent, put, texts

PENDING = "SELECT agent, from_agent, trigger, message FROM messages ORDER BY id"


@pytest.fixture(autouse=True)
def team(conn):
    for name in ("coder", "reviewer", "writer"):
        make_agent(conn, name)
    team = Team("dev", "Dev", "coder", ("coder", "reviewer", "writer"))
    with transaction(conn):
        teams.save(conn, team, now_ms=NOW)
    return team


def post(conn, text, **from_whom):
    with transaction(conn):
        return rooms.post(conn, teams.get(conn, "dev"), text, now_ms=NOW, **from_whom)


def take(conn, agent):
    (session,) = column(conn, "SELECT id FROM sessions WHERE agent = :agent", agent=agent)
    with transaction(conn):
        return claims.claim(conn, agent, session, token="turn_a", now_ms=NOW, lease_ms=LEASE, limit=10)


def test_a_post_of_a_member_is_one_line_and_reaches_every_other_member(conn):
    line = post(conn, "it works", from_agent="coder")
    assert rows(conn, "SELECT * FROM chat_messages") == [(line, "dev", "coder", "it works", NOW, None, None)]
    told = "[Chat room #dev — @coder]:\nit works"
    assert rows(conn, PENDING) == [("reviewer", "coder", 1, told), ("writer", "coder", 1, told)]
    assert set(rows(conn, "SELECT channel, id_prefix, platform_id, sender FROM messages")) == {
        ("chatroom", "chat", "dev", "coder")
    }


def test_a_post_of_a_person_reaches_all_members(conn):
    post(conn, "well done")
    assert column(conn, "SELECT from_agent FROM chat_messages") == ["user"]
    assert [found[:3] for found in rows(conn, PENDING)] == [(name, None, 1) for name in ("coder", "reviewer", "writer")]


def test_pending_posts_share_a_turn(conn):
    post(conn, "one")
    post(conn, "two", from_agent="writer")
    assert texts(take(conn, "coder")) == ["[Chat room #dev — @user]:\none", "[Chat room #dev — @writer]:\ntwo"]


def test_an_answer_is_context_for_the_others_and_starts_no_turn(conn):
    post(conn, "who is there?")
    asked = take(conn, "coder").asked[0]
    with transaction(conn):
        rooms.answer(conn, "dev", "I am", from_agent="coder", because=asked.content, now_ms=NOW)
    assert column(conn, "SELECT message FROM chat_messages ORDER BY id") == ["who is there?", "I am"]
    assert [found[:3] for found in rows(conn, PENDING)[3:]] == [("reviewer", "coder", 0), ("writer", "coder", 0)]
    batch = take(conn, "writer").batch
    assert [message.trigger for message in batch] == [True, False]


def test_all_lines_of_a_chain_keep_the_person_whose_message_began_it(conn):
    asked = mailbox.get(conn, put(conn, "my plan", agent="coder", sender_id="5")).message
    post(conn, "Ana has a plan", from_agent="coder", because=asked)
    heard = newest(conn)
    post(conn, "what plan?", from_agent="writer", because=heard)
    with transaction(conn):
        rooms.answer(conn, "dev", "a good one", from_agent="writer", because=heard.content, now_ms=NOW)
    post(conn, "hello")
    post(conn, "hello?", from_agent="coder", because=newest(conn))
    found = rows(conn, "SELECT message, channel, sender_id FROM chat_messages ORDER BY id")
    of_ana = [(text, "telegram", "5") for text in ("Ana has a plan", "what plan?", "a good one")]
    assert found == [*of_ana, ("hello", None, None), ("hello?", None, None)]


def test_an_answer_to_a_room_that_is_gone_or_was_left_is_not_stored(conn):
    with transaction(conn):
        teams.save(conn, Team("dev", "Dev", "writer", ("writer",)), now_ms=NOW)
    before = dump(conn)
    with transaction(conn):
        rooms.answer(conn, "dev", "I am", from_agent="coder", because={}, now_ms=NOW)
        rooms.answer(conn, "gone", "I am", from_agent="writer", because={}, now_ms=NOW)
    assert dump(conn) == before


def test_only_members_and_people_post(conn):
    make_agent(conn, "stranger")
    before = dump(conn)
    with pytest.raises(WrongState, match="'stranger' is not in the team 'dev'"):
        post(conn, "hello", from_agent="stranger")
    assert dump(conn) == before


def test_a_post_that_can_not_reach_every_member_is_not_stored(conn):
    rows(
        conn,
        """
        CREATE TEMP TRIGGER broken BEFORE INSERT ON main.messages WHEN NEW.agent = 'writer'
        BEGIN SELECT raise(ABORT, 'broken'); END
        """,
    )
    before = dump(conn)
    with pytest.raises(apsw.ConstraintError, match="broken"):
        post(conn, "hello")
    assert dump(conn) == before


def test_members_that_trigger_each_other_are_stopped(conn):
    post(conn, "begin")
    for count in range(1, hops.LIMIT + 1):
        post(conn, "go on", from_agent="coder", because=newest(conn))
        assert newest(conn).content["hops"] == count
    with pytest.raises(WrongState, match="9 times because of one message"):
        post(conn, "go on", from_agent="coder", because=newest(conn))


def newest(conn):
    return mailbox.get(conn, column(conn, "SELECT max(id) FROM messages")[0]).message


def test_all_posts_because_of_one_line_are_counted_together(conn):
    """Each member has a row of its own of the line that began."""
    post(conn, "begin")
    first, *_ = column(conn, "SELECT id FROM messages ORDER BY id")
    causes = {agent: mailbox.get(conn, first + place).message for place, agent in enumerate(("coder", "reviewer"))}
    few = chains.MailLimits(total=6)
    for agent, cause in (("coder", causes["coder"]), ("reviewer", causes["reviewer"]), ("coder", causes["coder"])):
        post(conn, "go on", from_agent=agent, because=cause, limits=few)
    with pytest.raises(WrongState, match="6 messages because of one message"):
        post(conn, "go on", from_agent="reviewer", because=causes["reviewer"], limits=few)
    assert column(conn, "SELECT DISTINCT content ->> 'origin' FROM messages WHERE from_agent IS NOT NULL") == ["line_1"]


def test_an_answer_to_a_post_keeps_its_chain_and_does_not_count(conn):
    post(conn, "who is there?")
    asked = take(conn, "coder").asked[0]
    with transaction(conn):
        rooms.answer(conn, "dev", "I am", from_agent="coder", because=asked.content, now_ms=NOW)
    assert newest(conn).content["origin"] == "line_1"
    assert column(conn, "SELECT sent FROM chains") == []
