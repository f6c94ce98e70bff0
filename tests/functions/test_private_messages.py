"""A message that one person alone sees in a group, from the webhook to the platform: its answer is for that person."""

import asyncio
import json
import sys
from pathlib import Path

import httpx
import pytest

from functions import ingest
from functions.deliver import Deliver
from functions.dispatch import Dispatch
from shared.core.settings import Settings
from shared.db.engine.connection import rows, transaction
from shared.db.queue import claims
from shared.db.roster import chats
from shared.queue import session_reset
from shared.roster import wirings
from tests.fake_client import FakeClient
from tests.support import NOW, column, make_agent, row

pytestmark = pytest.mark.usefixtures("day_of_the_events")

EVENTS = Path(__file__).parents[1] / "events/telegram"
SECRET = {"x-telegram-bot-api-secret-token": "a-Secret_that-telegram-repeats"}
GROUP = "-1002003004005"
BO, CY = 5000000002, 5000000003

# Answers once, as plain programs do, and remembers in its continuation what it was told before.
PROGRAM = """
import json, sys
turn = json.load(sys.stdin)
heard = (turn["continuation"] or "").split("|") + [message["text"] for message in turn["messages"]]
print(json.dumps({"type": "init", "continuation": "|".join(heard)}))
print("heard" + " ".join(heard))
"""


def update(number, text, person, *, is_private=False):
    """An update of the group, as Telegram sends it."""
    body = json.loads((EVENTS / "079_ephemeral_command.json").read_bytes())
    message = body["message"]
    body["update_id"] += number
    message |= {"message_id": message["message_id"] + number, "text": text}
    message["from"] |= {"id": person, "first_name": f"Person {person % 10}"}
    if not is_private:
        for name in ("entities", "ephemeral_message_id", "receiver_user"):
            del message[name]
    return json.dumps(body).encode()


@pytest.fixture
def group(conn):
    make_agent(conn, "coder", provider="command", config={"command": [sys.executable, "-I", "-S", "-c", PROGRAM]})
    with transaction(conn):
        chat = chats.ensure(conn, "telegram", GROUP, is_group=True, sender_policy="public", now_ms=NOW)
        everything = {"engage_mode": "pattern", "engage_pattern": "."}
        wirings.connect(conn, chat.id, "coder", everything, now_ms=NOW)
    return chat.id


def send(serving, *updates):
    async def go():
        async with serving(ingest) as client:
            for body in updates:
                assert (await client.post("/webhooks/telegram", content=body, headers=SECRET)).status_code == 200

    asyncio.run(go())


def answer_all(conn, until):
    async def go():
        service = Dispatch(Settings.load())
        service.worker.begin()
        await until(lambda: set(column(conn, "SELECT status FROM messages")) == {"completed"})
        await until(lambda: not service.worker.running)
        await service.close()

    asyncio.run(go())


def delivered(conn, until):
    """The text and the receiver (None: everybody) of each message that Telegram was given."""
    calls = []

    def platform(request):
        calls.append(json.loads(request.content))
        return httpx.Response(200, json={"ok": True, "result": {"message_id": len(calls)}})

    async def go():
        service = Deliver(Settings.load(), FakeClient(platform))
        service.worker.begin()
        await until(lambda: set(column(conn, "SELECT status FROM responses")) == {"acked"})
        await service.close()

    asyncio.run(go())
    return [(call["text"], call.get("ephemeral_message_parameters", {}).get("receiver_user_id")) for call in calls]


def test_a_private_question_is_answered_to_its_person_alone(serving, conn, until, group):
    send(serving, update(0, "hello all", CY), update(1, "/salary", BO, is_private=True), update(2, "and again", CY))
    answer_all(conn, until)
    assert sorted(delivered(conn, until)) == [("heard /salary", BO), ("heard hello all and again", None)]


def test_what_was_said_privately_is_in_no_context_of_others(serving, conn, until, group):
    """Neither in their batch nor in the conversation that the provider goes on with."""
    send(serving, update(0, "/salary", BO, is_private=True))
    answer_all(conn, until)
    send(serving, update(1, "hello all", CY), update(2, "/mine", CY, is_private=True))
    answer_all(conn, until)
    send(serving, update(3, "/more", BO, is_private=True))
    answer_all(conn, until)
    assert column(conn, "SELECT message FROM responses WHERE content LIKE '%receiver_user_id%' ORDER BY id") == [
        *("heard /salary", "heard /mine", "heard /salary /more")
    ]
    assert column(conn, "SELECT message FROM responses WHERE content NOT LIKE '%receiver_user_id%'") == [
        "heard hello all"
    ]
    assert rows(conn, "SELECT chat_id, private_to FROM sessions ORDER BY private_to") == [
        *((group, None), (group, str(BO)), (group, str(CY)))
    ]


def test_private_words_that_ask_for_nothing_are_context_for_their_person_alone(serving, conn, until, group):
    with transaction(conn):
        mentions = {"engage_mode": "pattern", "engage_pattern": "please", "ignored_message_policy": "accumulate"}
        wirings.connect(conn, group, "coder", mentions, now_ms=NOW)
    send(serving, update(0, "/salary", BO, is_private=True), update(1, "hello please", CY))
    claim = claims_of(conn, None)
    assert [message.message for message in claim.batch] == ["hello please"]
    send(serving, update(2, "/salary please", BO, is_private=True))
    assert [message.message for message in claims_of(conn, str(BO)).batch] == ["/salary", "/salary please"]


def claims_of(conn, person):
    """A claim of the group's session, or of the person's private one."""
    (session,) = column(conn, "SELECT id FROM sessions WHERE private_to IS :person", person=person)
    with transaction(conn):
        return claims.claim(conn, "coder", session, token=f"turn_{person}", now_ms=NOW, lease_ms=1000, limit=10)


def test_a_private_session_is_reset_for_its_person_alone(serving, conn, group):
    send(serving, update(0, "hello all", CY), update(1, "/salary", BO, is_private=True))
    with transaction(conn):
        session_reset.clear(conn, "coder", group, None, private_to=str(BO), now_ms=NOW)
    assert rows(conn, "SELECT private_to, status FROM sessions ORDER BY id") == [
        *((None, "active"), (str(BO), "closed"), (str(BO), "active"))
    ]
    assert row(conn, "sessions")["chat_id"] == group
