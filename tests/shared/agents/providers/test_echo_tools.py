"""The echo agent's commands call Postroom's tools, in real turns: the whole system without a model."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from functions.dispatch import Dispatch
from shared.agents.providers import echo_tools
from shared.agents.providers.echo import Echo
from shared.agents.providers.echo_tools import Wanted
from shared.core.errors import ConfigInvalid
from shared.core.settings import Settings
from shared.db.engine.connection import transaction
from shared.db.roster import destinations
from shared.turns.tools import registry
from tests.fake_client import FakeClient
from tests.serving import environment
from tests.support import NOW, column, make_agent, make_chat, put, wire

__all__ = ["environment"]

SAID = "SELECT message FROM responses ORDER BY id"


@pytest.fixture(autouse=True)
def family(conn, environment):
    """Echo answers in chat 100, and may write to chat 200 as ``family`` and to bob."""
    make_agent(conn, "bob")
    chat, other = make_chat(conn), make_chat(conn, "200")
    wire(conn, chat)
    with transaction(conn):
        destinations.put(conn, "assistant", name="family", chat=other, now_ms=NOW)
        destinations.put(conn, "assistant", name="bob", target_agent="bob", now_ms=NOW)


def say(conn, *texts):
    async def go():
        service = Dispatch(Settings.load())
        for text in texts:
            put(conn, text)
            await service.claim_and_start()
            while service.worker.running:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        await service.close()

    asyncio.run(go())
    return column(conn, SAID)


def everywhere(conn):
    make_agent(conn, "assistant", config={"tools": "all"}, is_default=True)


def test_a_text_is_said_at_once(conn):
    assert say(conn, "!post on my way")[0] == "on my way"


def test_what_a_person_attaches_comes_back(conn, tmp_path):
    """The file goes through the inbox and the outbox, so a person can try both ways of files without a model."""

    def telegram(request):
        if "/file/" in request.url.path:
            return httpx.Response(200, content=b"\x89PNG\r\n\x1a\n42")
        file = {"file_id": "f1", "file_unique_id": "u1", "file_path": "photos/1.png"}
        return httpx.Response(200, json={"ok": True, "result": file})

    async def go():
        service = Dispatch(Settings.load(), FakeClient(telegram))
        put(conn, "!file", files=[{"kind": "photo", "file_id": "f1"}])
        put(conn, "!file", chat="101")
        await service.claim_and_start()
        while service.worker.running:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await service.claim_and_start()
        while service.worker.running:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await service.close()

    asyncio.run(go())
    stored = [json.loads(each) for each in column(conn, "SELECT files FROM responses ORDER BY id")]
    ((file,),) = [each for each in stored if each]
    assert (file["kind"], file["type"], file["name"].endswith("_photo.png")) == ("photo", "image/png", True)
    assert Path(file["path"]).read_bytes() == b"\x89PNG\r\n\x1a\n42"
    assert "Attach a file to !file" in " ".join(column(conn, SAID))


def test_a_question_is_asked(conn):
    say(conn, "!ask Tea? | yes | no")
    assert column(conn, "SELECT count(*) FROM questions") == [1]


def test_a_reminder_is_a_task_that_says_it(conn):
    say(conn, "!remind 10m tea")
    assert column(conn, "SELECT message FROM messages WHERE kind = 'task'") == ["!say tea"]
    assert column(conn, "SELECT process_after FROM messages WHERE kind = 'task'") == [NOW + 600_000]
    assert "tea" in say(conn, "!tasks")[-1]


def test_every_tool_is_called_by_its_name(conn):
    everywhere(conn)
    for spec in registry.specs():
        (*_, said) = say(conn, f"!tool {spec.name} {{}}")
        assert "there is no tool" not in said
    assert "there is no tool 'nothing'" in say(conn, "!tool nothing")[-1]


ELSEWHERE = {
    "a destination": '!tool send_message {"text": "I quit", "to": "family"}',
    "a card to a destination": '!tool send_card {"title": "I quit", "to": "family"}',
    "a file to a destination": '!tool send_file {"path": "x", "to": "family"}',
    "an agent": "!send bob I quit",
    "the names of other chats": "!destinations",
    "the mailbox": "!inbox",
    "another agent": "!create Eve",
    "another chat": "!register bob family",
}


@pytest.mark.parametrize("text", ELSEWHERE.values(), ids=ELSEWHERE)
def test_nobody_reaches_beyond_the_conversation_through_echo(conn, text):
    assert '{"tools": "all"}' in say(conn, text)[-1]
    assert column(conn, "SELECT DISTINCT platform_id FROM responses") == ["100"]
    assert column(conn, "SELECT agent FROM messages") == ["assistant"]


def test_an_operator_may_let_echo_reach_everything(conn):
    everywhere(conn)
    say(conn, "!send bob I know", '!tool send_message {"text": "hi", "to": "family"}')
    assert "I know" in column(conn, "SELECT message FROM messages WHERE agent = 'bob'")
    assert "200" in column(conn, "SELECT platform_id FROM responses")


def test_a_wrong_config_is_refused_when_it_is_saved():
    with pytest.raises(ConfigInvalid, match="tools"):
        Echo().check({"tools": "some"})


MISTAKES = {
    "!remind tea": "is not a duration",
    "!tool x {": "no JSON",
    "!tool x []": "JSON object",
    "!edit 7": "two things",
}


@pytest.mark.parametrize(("text", "words"), MISTAKES.items())
def test_a_command_that_lacks_something_says_what(conn, text, words):
    assert words in say(conn, text)[-1]


def test_help_says_that_no_model_is_configured(conn):
    (said,) = say(conn, "!help")
    assert said.startswith("I am the built-in echo agent; no AI model is configured.")
    assert all(name in said for name in echo_tools.NAMES - {"!resume", "!cancel"})


def test_a_tool_without_a_destination_stays_here():
    assert echo_tools.may_call(Wanted("send_message", {"text": "x", "to": None}), {})
