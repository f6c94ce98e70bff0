import json
from pathlib import Path

import pytest

from shared.core.settings import Settings
from shared.db.engine.connection import rows, scalar, transaction
from shared.db.queue import claims, responses, sessions
from shared.db.roster import chats
from shared.queue.teamwork import mailbox
from tests.shared.turns.tools.calls import Running, let_send, process_on, running, team_mate
from tests.support import LEASE, NOW, column, dump, make_agent, make_chat, put, row, wire

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


# -- files and reactions ----------------------------------------------------------------------------------------------


def outbox(turn, db, name, content=b"42"):
    """Put a file into the outbox of the turn's session."""
    session = scalar(turn.process.reader, "SELECT session_id FROM sessions")
    folder = Settings(db=db).agents_dir / "assistant" / "sessions" / session / "outbox"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    return name


def files_of(conn):
    return json.loads(row(conn, "responses")["files"])


@pytest.fixture
def loft(conn):
    """A destination on Discord, which takes files and reactions."""
    return let_send(conn, chat=make_chat(conn, "300", "discord"))


def test_a_file_goes_out_as_a_copy_that_the_program_can_not_reach(conn, db, loft):
    with running(conn, db) as turn:
        outbox(turn, db, "report.txt")
        said = turn.say("send_file", path="report.txt", text="Here it is", to=loft)
        assert said == f"Sent report.txt to {loft} as message 1."
        assert turn.process.kicked >= {"deliver"}
    (file,) = files_of(conn)
    assert file["path"].startswith(f"{db}.files/turn_a/")
    assert (Path(file["path"]).read_bytes(), file["name"], file["kind"], file["size"]) == (
        *(b"42", "report.txt", "document", 2),
    )
    assert row(conn, "responses")["message"] == "Here it is"


def test_the_content_tells_how_a_file_appears_not_its_name(conn, db, loft):
    with running(conn, db) as turn:
        outbox(turn, db, "chart.txt", b"\x89PNG\r\n\x1a\n")
        turn.say("send_file", path="chart.txt", to=loft)
        assert [(each["kind"], each["type"]) for each in files_of(conn)] == [("photo", "image/png")]
        outbox(turn, db, "photo.jpg", b"<html>")
        turn.say("send_file", path="photo.jpg", to=loft)
        assert [(each["kind"], each["type"]) for each in files_of(conn)] == [("document", "application/octet-stream")]


@pytest.mark.parametrize("path", ["../../../p.db", "/etc/passwd", "nothing.txt", ""])
def test_only_what_is_in_the_outbox_is_sent(conn, db, loft, path):
    with running(conn, db) as turn:
        before = dump(conn)
        turn.refusal("send_file", path=path, to=loft)
        assert dump(conn) == before


def test_a_file_that_the_channel_finds_too_large_is_refused_with_its_limit(conn, db, loft):
    with running(conn, db) as turn:
        outbox(turn, db, "large.bin", b"x" * (10 * 1024 * 1024 + 1))
        refusal = turn.refusal("send_file", path="large.bin", to=loft)
        assert refusal == "the file was not sent: it is larger than 10 MiB, the most that this channel takes"
    assert list((db.parent / f"{db.name}.files").glob("*/*")) == [], "no copy stays"


def test_the_same_call_again_sends_and_copies_nothing(conn, db, loft):
    with running(conn, db) as turn:
        outbox(turn, db, "report.txt")
        first = turn.use("send_file", call_id="c1", path="report.txt", to=loft)
        assert turn.use("send_file", call_id="c1", path="report.txt", to=loft) == first
    assert column(conn, "SELECT count(*) FROM responses") == [1]
    assert len(list((db.parent / f"{db.name}.files").glob("*/*"))) == 1


@pytest.mark.parametrize("path", ["report.pdf", "../../etc/passwd"])
def test_where_a_channel_takes_no_files_nothing_is_stored(conn, db, path):
    name = let_send(conn, chat=make_chat(conn, "m1", "matrix"))
    with running(conn, db) as turn:
        before = dump(conn)
        assert turn.refusal("send_file", path=path, to=name).startswith(f"files can't be sent to {name} (matrix)")
        assert dump(conn) == before


def on_discord(conn):
    """The message of the turn came from Discord."""
    rows(conn, "UPDATE messages SET channel = 'discord', platform_message_id = '77'")
    return column(conn, "SELECT message_id FROM messages")[0]


def test_a_reaction_goes_to_the_message_that_the_agent_names(conn, db):
    with running(conn, db) as turn:
        asked = on_discord(conn)
        turn.say("add_reaction", message=asked, emoji="👀")
        assert json.loads(row(conn, "responses")["content"])["reaction"] == {
            "emoji": "👀",
            "message_id": "77",
            "row": None,
        }
        turn.say("add_reaction", message=asked, emoji="👀", remove=True)
        assert json.loads(row(conn, "responses")["content"])["reaction"]["emoji"] is None


def test_a_reaction_to_ones_own_message_is_by_its_number(conn, db, loft):
    with running(conn, db) as turn:
        turn.say("send_message", text="hello", to=loft)
        turn.say("add_reaction", message="1", emoji="🎉")
    reaction = json.loads(row(conn, "responses")["content"])["reaction"]
    assert (reaction["row"], reaction["message_id"]) == (1, None)


def test_a_message_of_another_conversation_takes_no_reaction(conn, db):
    put(conn, "theirs", chat="900", platform_message_id="9")
    with running(conn, db) as turn:
        theirs, mine = column(conn, "SELECT message_id FROM messages ORDER BY id")
        assert turn.refusal("add_reaction", message=theirs, emoji="👀").startswith("there is no message")
        assert turn.refusal("add_reaction", message="telegram_00000000", emoji="👀").startswith("there is no message")
        assert turn.refusal("add_reaction", message="17", emoji="👀").startswith("you sent no message 17")
    assert column(conn, "SELECT count(*) FROM responses") == [0]
    assert mine


def test_where_a_channel_has_no_reactions_nothing_is_stored(conn, db):
    with running(conn, db, platform_message_id="7") as turn:
        rows(conn, "UPDATE messages SET channel = 'matrix'")
        asked = column(conn, "SELECT message_id FROM messages")[0]
        before = dump(conn)
        assert turn.refusal("add_reaction", message=asked, emoji="👍").startswith("matrix has no reactions")
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
