"""Tools for what platforms have beyond text and files."""

import json
from pathlib import Path

import pytest

from shared.core.errors import SoundFailed
from shared.core.settings import Settings
from shared.turns.tools.toolbox import Caller, SessionToolbox
from tests.shared.turns.tools.calls import let_send, running
from tests.support import NOW, column, make_chat, put, row

OGG = b"OggS" + b"\0" * 60
HISTORY = "SELECT content FROM agent_messages WHERE role = 'assistant'"


def speaks(turn, answer):
    """The toolbox of the turn, for whose agent *answer* speaks; and what it was asked to say."""
    asked = []

    async def speak(agent, text):
        asked.append((agent.id, text))
        if isinstance(answer, Exception):
            raise answer
        return answer

    settings = turn.box._settings
    box = SessionToolbox(turn.process, settings, Caller.of(turn.claim), now_ms=lambda: NOW, speak=speak)
    turn.box = box
    return asked


def test_a_voice_message_goes_out_with_its_text(conn, db):
    with running(conn, db, thread="7") as turn:
        asked = speaks(turn, OGG)
        said = turn.say("send_voice", text="good morning")
    assert said == "Sent to this conversation as message 1: spoken, with the text below it."
    assert asked == [("assistant", "good morning")]
    stored = row(conn, "responses")
    (file,) = json.loads(stored["files"])
    assert (stored["message"], stored["thread_id"]) == ("good morning", "7")
    assert (file["kind"], file["name"], file["type"]) == ("voice", "voice.ogg", "audio/ogg")
    assert Path(file["path"]).read_bytes() == OGG
    assert column(conn, HISTORY) == ["good morning"]


def test_the_same_call_again_speaks_once(conn, db):
    with running(conn, db) as turn:
        asked = speaks(turn, OGG)
        assert turn.use("send_voice", call_id="1", text="hi") == turn.use("send_voice", call_id="1", text="hi")
    assert (len(asked), column(conn, "SELECT count(*) FROM responses")) == (1, [1])


WHY = {
    "nothing speaks": (None, "nothing speaks for you here (the operator sets a speaker)"),
    "it fails": (SoundFailed("openai refused it (500: x)"), "openai refused it (500: x)"),
    "too large for the channel": (OGG + b"\0" * 50_000_000, "it is larger than 47.7 MiB, the most that this channel"),
}


@pytest.mark.parametrize(("answer", "why"), WHY.values(), ids=WHY)
def test_without_sound_the_text_goes_out_alone(conn, db, answer, why):
    with running(conn, db) as turn:
        speaks(turn, answer)
        assert why in turn.say("send_voice", text="good morning")
    stored = row(conn, "responses")
    assert (stored["message"], stored["files"]) == ("good morning", "[]")


def test_an_operator_who_calls_as_the_agent_sends_the_text(conn, db):
    with running(conn, db) as turn:
        assert "as text alone" in turn.say("send_voice", text="hi")
    assert Settings(db=db).files.exists() is False


# -- polls, stickers, topics ------------------------------------------------------------------------------------------

LUNCH = {"question": "Lunch?", "options": ["Pizza", " big\nNoodles "]}
STICKER = {"kind": "sticker", "file_id": "CAAC1", "emoji": "👋"}


def content_of(conn):
    return json.loads(row(conn, "responses")["content"])


def test_a_poll_is_a_response_that_says_the_same_in_words(conn, db):
    with running(conn, db, thread="7") as turn:
        assert turn.say("send_poll", **LUNCH, hours=2).startswith("Sent to this conversation as message 1.")
    stored = row(conn, "responses")
    assert (stored["message"], stored["thread_id"]) == ("Lunch?\n- Pizza\n- big Noodles", "7")
    assert content_of(conn)["poll"] == {
        "question": "Lunch?", "options": ["Pizza", "big Noodles"], "is_multiple": False, "hours": 2,
    }  # fmt: skip
    assert column(conn, HISTORY) == ["Lunch?\n- Pizza\n- big Noodles"]


REFUSED = {
    "one option": ("telegram", {"options": ["a"]}, "at least 2"),
    "two that are the same": ("telegram", {"options": ["a", " a"]}, "no two the same"),
    "too many for the channel": ("discord", {"options": list("abcdefghijk")}, "discord takes up to 10 options"),
    "too long for the channel": ("discord", {"options": ["a", "b" * 56]}, "of up to 55 characters"),
}


@pytest.mark.parametrize(("channel", "given", "why"), REFUSED.values(), ids=REFUSED)
def test_a_poll_that_the_channel_would_refuse_is_refused_here(conn, db, channel, given, why):
    with running(conn, db) as turn:
        there = let_send(conn, chat=make_chat(conn, "300", channel))
        assert why in turn.refusal("send_poll", **{**LUNCH, **given}, to=there)
    assert column(conn, "SELECT count(*) FROM responses") == [0]


LACKS = {
    "send_poll": (LUNCH, "use ask_user_question"),
    "send_sticker": ({"message": "x"}, "send an emoji"),
    "create_topic": ({"name": "Plans", "text": "hi"}, "write a message instead"),
}


@pytest.mark.parametrize("tool", LACKS)
def test_a_channel_that_lacks_it_is_told_with_what_to_do_instead(conn, db, tool):
    given, instead = LACKS[tool]
    with running(conn, db) as turn:
        there = let_send(conn, chat=make_chat(conn, "300", "api"))
        refused = turn.refusal(tool, **given, to=there)
    assert f"can't be sent to {there} (api), and nothing was sent: {instead}" in refused


def test_what_one_person_alone_sees_is_no_poll_and_no_topic(conn, db):
    with running(conn, db, content={"context": {"receiver_user_id": "5"}}) as turn:
        assert "for one person alone" in turn.refusal("send_poll", **LUNCH)
        assert "topics can't be sent" in turn.refusal("create_topic", name="Plans", text="hi")


def test_a_sticker_of_the_conversation_is_sent_again(conn, db):
    with running(conn, db, files=[{"kind": "photo", "file_id": "f1"}, STICKER]) as turn:
        message = turn.claim.asked[0].message_id
        assert turn.say("send_sticker", message=message) == "Sent to this conversation as message 1."
    assert (row(conn, "responses")["message"], content_of(conn)["sticker"]) == ("👋", STICKER)


def test_a_message_without_a_sticker_and_one_of_another_conversation_give_none(conn, db):
    with running(conn, db) as turn:
        assert "brought no sticker" in turn.refusal("send_sticker", message=turn.claim.asked[0].message_id)
        theirs = put(conn, "x", chat="200", files=[STICKER])
        other = column(conn, f"SELECT message_id FROM messages WHERE id = {theirs}")[0]
        assert "no message" in turn.refusal("send_sticker", message=other)


def test_a_topic_begins_at_the_chat_and_not_in_the_topic_of_the_turn(conn, db):
    private = {"sealed_token": "x", "interaction_id": "1"}
    with running(conn, db, thread="7", content={"context": private, "is_group": True}) as turn:
        assert "message 1" in turn.say("create_topic", name=" Our\nPlans", text="Who comes?")
    stored = row(conn, "responses")
    assert (stored["platform_id"], stored["thread_id"], stored["message"]) == ("100", None, "Who comes?")
    assert content_of(conn) == {"topic": "Our Plans"}


@pytest.mark.parametrize("tool", ["send_poll", "create_topic"])
def test_it_can_not_be_edited_afterwards(conn, db, tool):
    given = LUNCH if tool == "send_poll" else {"name": "Plans", "text": "hi"}
    with running(conn, db) as turn:
        turn.say(tool, **given)
        assert "can't be changed" in turn.refusal("edit_message", message=1, text="x")
