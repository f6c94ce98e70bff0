"""A voice message for real programs: they read its words as text, and answer with a voice message."""

import itertools
import json
import shlex

import pytest

from tests.e2e.conftest import until
from tests.emulator.platforms.telegram.pictures import OGG

pytestmark = pytest.mark.agents

PROVIDERS = {"claude": {}, "codex": {}, "opencode": {"models": "openai"}}
_people = itertools.count(7101)
_BOUNDARY = "voice-of-a-test"


def form(**fields):
    """A multipart body with a voice message."""
    parts = [f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{n}"\r\n\r\n{v}\r\n' for n, v in fields.items()]
    head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="note.ogg"\r\n'
    head += "Content-Type: audio/ogg\r\n\r\n"
    return "".join([*parts, head]).encode() + OGG + f"\r\n--{_BOUNDARY}--\r\n".encode()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_voice_message_is_heard_and_answered_by_one(agents, provider):
    system, person = agents.system, str(next(_people))
    script = f'voice-for-{provider} [[tool send_voice {{"text": "I heard you"}}]] [[say done]]'
    settings = {
        "transcriber": f"echo {shlex.quote(script)} {{sound}}",
        "speaker": "sh -c 'cat > /dev/null; printf OggS1234'",
    }
    agent = agents.make(f"voice-{provider}", provider, config=PROVIDERS[provider], **settings)
    made = {"channel": "telegram", "platformId": person, "senderPolicy": "public"}
    chat = system.call("POST", "/api/chats", made)["chat"]["id"]
    hello = {"text": "[[say hello]]"}
    system.post(f"/control/telegram/users/{person}/message", hello, "platforms")  # the person is there from then on
    system.call("PUT", f"/api/chats/{chat}/wirings/{agent}", {})
    body = form(person=person, chat=person, text="", kinds=json.dumps(["voice"]))
    kind = {"Content-Type": f"multipart/form-data; boundary={_BOUNDARY}"}
    status, answer = system.post("/chat/telegram/say", body, "platforms", kind)
    assert status == 201, answer

    sql = "SELECT message, json_extract(files, '$[0].kind') FROM responses WHERE agent = ? ORDER BY id"
    until("two answers", lambda: len(system.query(sql, agent)) == 2)
    assert system.query(sql, agent) == [("I heard you", "voice"), ("done", None)]
    assert agents.asked(f"voice-for-{provider}")
