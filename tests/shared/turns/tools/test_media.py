"""Tools for what platforms have beyond text and files."""

import json
from pathlib import Path

import pytest

from shared.core.errors import SoundFailed
from shared.core.settings import Settings
from shared.turns.tools.toolbox import Caller, SessionToolbox
from tests.shared.turns.tools.calls import running
from tests.support import NOW, column, row

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
