"""Requests for text of sound, and for sound of text: their form, what they cost, and what a refusal says."""

import asyncio
import email
import json

import pytest
from aiohttp import web

from shared.core.errors import SoundFailed
from shared.core.sound_makers import SoundModel
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.engine.group_commit import Writer
from shared.db.spending import budgets
from shared.turns.gateway.model_gateway import ModelGateway
from tests.shared.turns.gateway.model_host import KEY, TURN, hosting, reply, settings
from tests.support import NOW

WHISPER = SoundModel("openai", "whisper-1")
SOUND = b"OggS" + b"x" * 9000
USED = "SELECT model, requests, input, output, cost FROM usage"


def ask(db, tmp_path, serve, what, **more):
    """What *what* gives of the models of a gateway in front of *serve*, and the host."""

    async def go():
        reader, writer = open_connection(db, readonly=True), Writer(db)
        async with hosting(serve) as host:
            known = {name: host.url if value == "host" else value for name, value in more.items()}
            gateway = ModelGateway(
                tmp_path / "run", reader, writer, timezone="UTC", on_notice=print, models=settings(host, **known)
            )
            try:
                return await what(gateway.sound()), host
            finally:
                await gateway.close()
                writer.close()
                reader.close()

    return asyncio.run(asyncio.wait_for(go(), 30))


def transcribe(model=WHISPER):
    return lambda models: models.transcribe(TURN, model, SOUND, "sound.ogg", "audio/ogg")


def test_sound_goes_out_in_whispers_form_with_our_key(db, conn, tmp_path):
    said, host = ask(db, tmp_path, reply(200, '{"text": " buy milk\\n"}'), transcribe())
    assert said == "buy milk"
    (request,), (body,) = host.requests, host.bodies
    assert (request.method, request.path) == ("POST", "/audio/transcriptions")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    form = email.message_from_bytes(b"Content-Type: " + request.headers["content-type"].encode() + b"\n\n" + body)
    parts = {each.get_param("name", header="content-disposition"): each for each in form.get_payload()}
    assert {name: each.get_payload() for name, each in parts.items() if name != "file"} == {
        "model": "whisper-1", "response_format": "json",
    }  # fmt: skip
    file = parts["file"]
    assert (file.get_filename(), file.get_content_type()) == ("sound.ogg", "audio/ogg")
    assert file.get_payload(decode=True) == SOUND


COUNTS = {
    "seconds": ({"usage": {"type": "duration", "seconds": 12.2}}, (13, 0)),
    "tokens": ({"usage": {"type": "tokens", "input_tokens": 14, "output_tokens": 45}}, (14, 45)),
    "the length of the sound": ({"duration": 3.1}, (4, 0)),
    "nothing, so by its size": ({}, (4, 0)),
}


@pytest.mark.parametrize(("said", "used"), COUNTS.values(), ids=COUNTS)
def test_what_it_cost_is_in_the_row_of_the_turn(db, conn, tmp_path, said, used):
    prices = {"whisper-1": {"input": 100, "output": 0}}
    ask(db, tmp_path, reply(200, json.dumps({"text": "hi", **said})), transcribe(), model_prices=prices)
    assert rows(conn, USED) == [("whisper-1", 1, *used, 100 * used[0])]


def test_a_budget_that_is_used_up_lets_nothing_out(db, conn, tmp_path):
    with transaction(conn):
        budgets.put(conn, None, "month", "tokens", 0, now_ms=NOW)

    async def refused(models):
        with pytest.raises(SoundFailed, match="The budget of all agents"):
            await transcribe()(models)

    _, host = ask(db, tmp_path, reply(200), refused)
    assert (host.requests, rows(conn, USED)) == ([], [])


FAILURES = {
    "a refusal": (
        reply(400, f'{{"error": {{"message": "{KEY} is bad"}}}}'),
        "refused it (400: ",
        False,
    ),
    "too many requests": (reply(429), "429", True),
    "a host that is down": (reply(503, "<html>"), "503", True),
    "no text": (reply(200, "[]"), "has no text in it", False),
}


@pytest.mark.parametrize(("serve", "why", "is_brief"), FAILURES.values(), ids=FAILURES)
def test_a_failure_says_why_and_costs_nothing_that_was_refused(db, conn, tmp_path, serve, why, is_brief):
    async def failing(models):
        with pytest.raises(SoundFailed) as failed:
            await transcribe()(models)
        return failed.value

    error, _ = ask(db, tmp_path, serve, failing)
    assert why in str(error)
    assert (KEY in str(error), error.is_brief) == (False, is_brief)
    assert len(rows(conn, USED)) == (1 if why == "has no text in it" else 0)


def test_a_host_without_an_address_is_named_with_its_variable(db, tmp_path):
    async def failing(models):
        with pytest.raises(SoundFailed, match=r"'speech' is set \(POSTROOM_SPEECH_URL"):
            await transcribe(SoundModel("speech", "base"))(models)

    _, host = ask(db, tmp_path, reply(200), failing)
    assert host.requests == []


def test_a_server_of_ones_own_needs_no_key(db, tmp_path):
    serve = reply(200, '{"text": "hi"}')
    said, host = ask(db, tmp_path, serve, transcribe(SoundModel("speech", "base")), speech_url="host")
    assert (said, "authorization" in host.requests[0].headers) == ("hi", False)


def test_a_text_is_spoken_in_the_form_of_a_voice_message(db, conn, tmp_path):
    async def serve(_):
        return web.Response(body=SOUND, content_type="audio/ogg")

    sound, host = ask(
        db, tmp_path, serve, lambda models: models.speak(TURN, SoundModel("openai", "tts-1", "nova"), "Hello!")
    )
    assert sound == SOUND
    assert host.requests[0].path == "/audio/speech"
    assert json.loads(host.bodies[0]) == {
        "model": "tts-1", "input": "Hello!", "voice": "nova", "response_format": "opus",
    }  # fmt: skip
    assert rows(conn, USED) == [("tts-1", 1, 6, 0, None)]
