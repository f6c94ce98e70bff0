import json

import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims, responses, sessions
from shared.db.roster import chats
from shared.queue import mailbox
from tests.shared.tools.calls import Running, let_send, process_on, running, team_mate
from tests.support import LEASE, NOW, column, dump, make_agent, make_chat, row, wire

SAID = "SELECT channel, platform_id, thread_id, message FROM responses ORDER BY id"


def test_a_message_goes_to_the_place_of_the_turn_topic_included(conn, db):
    with running(conn, db, thread="7", platform_message_id="m7", content={"is_group": True}) as turn:
        turn.say("send_message", text="working on it")
    assert rows(conn, SAID) == [("telegram", "100", "7", "working on it")]
    stored = row(conn, "responses")
    assert (stored["in_reply_to"], stored["agent"]) == (1, "assistant")
    assert json.loads(stored["content"]) == {"reply_to": "m7"}


def test_what_is_private_to_one_person_stays_so(conn, db):
    private = {"receiver_user_id": "5", "token": "sealed"}
    with running(conn, db, content={"context": private}) as turn:
        turn.say("send_message", text="for you only")
    assert json.loads(row(conn, "responses")["content"])["context"] == private


def test_a_destination_is_the_name_and_the_permission(conn, db):
    family = make_chat(conn, "-200", is_group=True)
    with running(conn, db) as turn:
        assert "you have no destination 'family'" in turn.refusal("send_message", text="hi", to="family")
        name = let_send(conn, chat=family)
        assert turn.say("send_message", text="hi", to=name) == f"Sent to {name} as message 1."
    assert rows(conn, SAID) == [("telegram", "-200", None, "hi")]


@pytest.mark.parametrize("name", ["-200", "../family", "telegram:-200", "1", "chat-1; --", "CHAT-1", "assistant", "*"])
def test_no_id_of_a_platform_and_no_trick_is_a_destination(conn, db, name):
    make_chat(conn, "-200", is_group=True)
    with running(conn, db) as turn:
        before = dump(conn)
        assert turn.refusal("send_message", text="hi", to=name).startswith("you have no destination")
        assert dump(conn) == before


def test_not_there_and_not_yours_read_alike(conn, db):
    """Another agent's destination, and a name that nobody has."""
    make_chat(conn, "-200", is_group=True)
    with running(conn, db) as turn:
        team_mate(conn, "bob")
        theirs = let_send(conn, "bob", chat=make_chat(conn, "-300"))
        other = turn.refusal("send_message", text="hi", to=theirs)
        nobody = turn.refusal("send_message", text="hi", to="nobody")
    assert other.replace(theirs, "X") == nobody.replace("nobody", "X")


def test_a_chat_that_the_bot_left_is_refused(conn, db):
    gone = make_chat(conn, "-200", is_group=True)
    with running(conn, db) as turn:
        name = let_send(conn, chat=gone)
        with transaction(conn):
            chats.set_status(conn, "telegram", "-200", "inactive", now_ms=NOW)
        assert "can't be written to" in turn.refusal("send_message", text="hi", to=name)
    assert rows(conn, SAID) == []


def test_an_agent_as_the_destination_of_a_message_is_pointed_to_the_right_tool(conn, db):
    with running(conn, db) as turn:
        name = team_mate(conn)
        assert turn.refusal("send_message", text="hi", to=name) == "'bob' is an agent: use send_to_agent to write to it"


def test_an_agent_that_asks_has_no_place_for_people(conn, db):
    """The final answer goes to it by itself; a person's chat is never guessed."""
    make_agent(conn, "bob")
    with transaction(conn):
        mailbox.send(conn, "bob", "assistant", "do it", now_ms=NOW)
        own = sessions.ensure(conn, "assistant", None, None, now_ms=NOW)
        claim = claims.claim(conn, "assistant", own, token="turn_a", now_ms=NOW, lease_ms=LEASE, limit=10)
    with process_on(db) as process:
        refused = Running(process, db, claim).refusal("send_message", text="hi")
    assert refused.startswith("no person wrote in this turn: your final answer goes to agent bob by itself")
    assert rows(conn, SAID) == []


def test_what_the_prompt_wraps_around_messages_is_taken_off(conn, db):
    with running(conn, db, text="do it") as turn:
        asked = turn.claim.batch[0].message_id
        echoed = f'<message id="{asked}" sender="Ana" time="2027-01-15T08:00:00+00:00">hi</message>'
        turn.say("send_message", text=echoed)
    assert rows(conn, SAID)[0][3] == "hi"


def test_a_card_is_markdown_that_every_channel_shows(conn, db):
    with running(conn, db) as turn:
        turn.say(
            "send_card",
            title="Build\n*done*",
            text="All green.",
            fields=[{"name": "Tests", "value": "4 000"}],
            links=[{"label": "the [log]", "url": "https://ci.example/1"}],
        )
    assert rows(conn, SAID)[0][3] == (
        "**Build \\*done\\***\n\nAll green.\n\n- **Tests**: 4 000\n\n- [the \\[log\\]](https://ci.example/1)"
    )


@pytest.mark.parametrize("url", ["javascript:alert(1)", "https://x/) [y](tg://z", "http://a b", "file:///etc/passwd"])
def test_a_card_links_to_pages_only(conn, db, url):
    with running(conn, db) as turn:
        assert "argument 'links.0.url'" in turn.refusal("send_card", title="x", links=[{"label": "y", "url": url}])


# -- edit_message -----------------------------------------------------------------------------------------------------


def test_a_message_is_edited_by_the_number_that_it_got(conn, db):
    with running(conn, db, thread="7") as turn:
        turn.say("send_message", text="10 %")
        turn.say("edit_message", message=1, text="50 %")
    stored = row(conn, "responses")
    assert (stored["message"], stored["thread_id"], json.loads(stored["content"])) == ("50 %", "7", {"edits": 1})


def test_what_another_session_or_agent_said_can_not_be_edited(conn, db):
    with running(conn, db) as turn, running(conn, db, chat="300") as other:
        other.say("send_message", text="theirs")
        theirs = turn.refusal("edit_message", message=1, text="mine now")
        nobody = turn.refusal("edit_message", message=99, text="x")
    assert theirs == "you sent no message 1 in this conversation; send_message gives the number"
    assert nobody == theirs.replace("1 in", "99 in")


def test_a_message_that_died_or_was_split_is_not_edited(conn, db):
    with running(conn, db) as turn:
        turn.say("send_message", text="x" * 3000)
        assert "too long for one message" in turn.refusal("edit_message", message=1, text="short")
        turn.say("send_message", text="will die")
        with transaction(conn):
            rows(conn, "UPDATE responses SET status = 'dead', last_error = 'no', failure = 'error' WHERE id = 2")
        assert "was never delivered" in turn.refusal("edit_message", message=2, text="new")


@pytest.mark.parametrize("number", [0, -1, 2**63, "first", None, 1.5])
def test_a_number_that_no_message_has_is_refused(conn, db, number):
    with running(conn, db) as turn:
        assert "argument 'message'" in turn.refusal("edit_message", message=number, text="x")


def test_an_edit_goes_out_in_the_place_of_its_message(conn, db):
    """Deliver finds the platform's id of what it replaces."""
    with running(conn, db) as turn:
        turn.say("send_message", text="10 %")
        turn.say("edit_message", message=1, text="50 %")
    with transaction(conn):
        first = responses.claim(conn, 1, token="d1", now_ms=NOW, lease_ms=LEASE)
        responses.ack(conn, first, ("tg77",), now_ms=NOW)
    assert responses.sent_as(conn, 1, chat_id=first.chat_id) == "tg77"


# -- what no channel can do yet ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "given", "sentence"),
    [
        ("send_file", {"path": "report.pdf"}, "files can't be sent to this conversation (telegram) yet"),
        ("send_file", {"path": "../../etc/passwd"}, "files can't be sent to this conversation (telegram) yet"),
        ("add_reaction", {"message": "m7", "emoji": "\N{THUMBS UP SIGN}"}, "reactions can't be added on telegram yet"),
    ],
)
def test_what_a_channel_can_not_do_yet_is_said_and_stores_nothing(conn, db, tool, given, sentence):
    with running(conn, db) as turn:
        before = dump(conn)
        assert turn.refusal(tool, **given).startswith(sentence)
        assert dump(conn) == before


def test_a_file_for_a_place_that_is_not_yours_reads_as_any_such_place(conn, db):
    with running(conn, db) as turn:
        assert turn.refusal("send_file", path="x", to="family").startswith("you have no destination 'family'")


def test_two_agents_in_one_chat_do_not_share_what_they_said(conn, db):
    with running(conn, db) as turn:
        team_mate(conn, "bob")
        wire(conn, make_chat(conn), "bob")
        turn.say("send_message", text="mine")
    assert column(conn, "SELECT agent FROM responses") == ["assistant"]
