"""Voice messages become text before the turn."""

import asyncio
import json

import httpx
import pytest

from shared.agents import registry
from shared.agents.base import Failed, Result
from shared.db.engine.connection import rows, transaction
from shared.db.roster import agents
from tests.fake_client import FakeClient
from tests.shared.turns.gateway.model_host import hosting, reply
from tests.shared.turns.run import scripted_provider
from tests.support import column, make_agent, put

OGG = b"OggS" + b"\0" * 100
VOICE = {"kind": "voice", "file_id": "f1", "mime": "audio/ogg", "size": len(OGG), "duration": 2}
HISTORY = "SELECT content FROM agent_messages WHERE role = 'user'"


def telegram(request):
    if request.url.path.endswith(".oga"):
        return httpx.Response(200, content=OGG)
    return httpx.Response(200, json={"ok": True, "result": {"file_id": "f1", "file_path": "voice/f1.oga"}})


@pytest.fixture
def hears(conn, environment, monkeypatch):
    """Runs a turn over a voice message: the turns that the agent saw, and the bodies that its transcriber got."""
    seen, outcomes = [], []

    async def script(turn):
        seen.append(turn)
        yield outcomes.pop(0) if outcomes else Result("ok")

    monkeypatch.setattr(scripted_provider.Scripted, "script", staticmethod(script))
    monkeypatch.setitem(registry._MODULES, "scripted", scripted_provider.__name__)

    def run(serve, transcriber="openai/whisper-1", *, text="", files=(VOICE,), first=None, turns=1):
        outcomes[:] = [first] if first else []
        make_agent(conn, "coder", provider="scripted", transcriber=transcriber)
        put(conn, text, agent="coder", files=list(files), content={"only_files": "(voice)"})

        async def go():
            async with hosting(serve) as host:
                monkeypatch.setenv("POSTROOM_OPENAI_API_KEY", "sk-of-the-operator")
                monkeypatch.setenv("POSTROOM_OPENAI_BASE_URL", host.url)
                async with scripted_provider.dispatching(FakeClient(telegram)) as service:
                    service.runner._sounds._pauses_s = (0.0, 0.0)
                    for _ in range(turns):
                        await scripted_provider.one_step(service)
                        with transaction(conn):
                            conn.execute("UPDATE messages SET process_after = NULL WHERE status = 'pending'")
                return host

        return seen, asyncio.run(asyncio.wait_for(go(), 60)).bodies

    return run


def test_its_words_are_the_text_of_the_message_and_the_sound_stays_a_file(conn, hears):
    ((turn,), bodies) = hears(reply(200, '{"text": "buy <milk>"}'))
    (message,), (sound,) = turn.messages, turn.attachments
    assert (message.text, sound.path.read_bytes(), len(bodies)) == ("buy <milk>", OGG, 1)
    assert ">buy &lt;milk&gt;\n<attachment kind=" in turn.prompt
    assert 'spoken_words="in the text"/></message>' in turn.prompt
    assert column(conn, HISTORY) == ["(voice: buy <milk>)"]
    assert json.loads(column(conn, "SELECT files FROM messages")[0])[0]["transcript"] == "buy <milk>"


def test_they_follow_what_the_person_wrote(hears):
    ((turn,), _) = hears(reply(200, '{"text": "now"}'), text="listen")
    assert turn.messages[0].text == "listen\nnow"


def test_a_second_attempt_has_them_already(hears):
    turns, bodies = hears(reply(200, '{"text": "buy milk"}'), first=Failed("try again"), turns=2)
    assert [each.messages[0].text for each in turns] == ["buy milk", "buy milk"]
    assert len(bodies) == 1


def test_where_nothing_is_named_the_agent_gets_the_file_alone(conn, hears):
    ((turn,), bodies) = hears(reply(200), transcriber=None)
    assert (turn.messages[0].text, len(turn.attachments), bodies) == ("", 1, [])
    assert "words" not in turn.prompt
    assert column(conn, HISTORY) == ["(voice)"]


def test_a_failure_costs_the_words_alone(conn, hears):
    ((turn,), bodies) = hears(reply(503))
    assert (turn.messages[0].text, len(turn.attachments), len(bodies)) == ("", 1, 3)
    assert 'no_words_because="openai refused it (503: {})"' in turn.prompt
    assert rows(conn, "SELECT status FROM messages") == [("completed",)]


def test_silence_is_said(hears):
    ((turn,), _) = hears(reply(200, '{"text": ""}'))
    assert 'no_words_because="nothing is said in it"' in turn.prompt


def test_a_picture_is_no_sound(hears):
    _, bodies = hears(reply(200, '{"text": "x"}'), files=[{**VOICE, "kind": "photo"}])
    assert bodies == []


def test_any_program_does(hears):
    ((turn,), _) = hears(reply(500), transcriber="wc -c {sound}")
    assert turn.messages[0].text == f"{len(OGG)} sound.ogg"


def test_the_operator_names_one_for_all_agents_and_an_agent_may_have_none(hears, monkeypatch):
    monkeypatch.setenv("POSTROOM_TRANSCRIBER", "echo heard {sound}")
    (first, *_), _ = hears(reply(500), transcriber=None)
    assert first.messages[0].text == "heard sound.ogg"


def test_an_agent_with_none_hears_nothing(hears, monkeypatch):
    monkeypatch.setenv("POSTROOM_TRANSCRIBER", "echo heard {sound}")
    (turn,), _ = hears(reply(500), transcriber="none")
    assert turn.messages[0].text == ""


def test_the_row_holds_a_setting(conn):
    make_agent(conn, "coder", transcriber="openai/whisper-1", speaker="none")
    found = agents.get(conn, "coder")
    assert (found.transcriber, found.speaker) == ("openai/whisper-1", "none")
