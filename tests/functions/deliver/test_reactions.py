"""A reaction is a response in its chat's order; it can be repeated, so its outcome is never unknown."""

import asyncio
import json

import httpx
import pytest

from shared.db.engine.connection import rows, transaction
from shared.runtime.http_client import NoAnswer
from tests.functions.deliver.sending import service_of, step, worked
from tests.support import answer, column, row


class Reacting:
    """A Discord that keeps method and path of each call."""

    def __init__(self, *script):
        self.calls = []
        self._script = list(script)

    def __call__(self, request):
        self.calls.append((request.method, request.url.raw_path.decode().partition("/channels/")[2]))
        act = self._script.pop(0) if self._script else done
        return act(len(self.calls))


def done(number):
    return httpx.Response(200, json={"id": str(9000 + number)})


def silent(_):
    raise NoAnswer("nothing came")


def gone(_):
    return httpx.Response(404, json={"code": 10008, "message": "Unknown Message"})


def react(conn, emoji, **target):
    reaction = {"emoji": emoji, "message_id": None, "row": None, **target}
    return answer(conn, emoji or "", channel="discord", chat="300", content={"reaction": reaction})


def test_a_reaction_is_set_on_the_message(conn):
    react(conn, "👀", message_id="77")
    assert step(Reacting()).calls == [("PUT", "300/messages/77/reactions/%F0%9F%91%80/@me")]
    found = row(conn, "responses")
    assert (found["status"], found["platform_message_id"]) == ("acked", None)


def test_a_reaction_to_what_we_say_in_the_same_turn_finds_its_id(conn):
    said = answer(conn, "hello", channel="discord", chat="300")
    react(conn, "🎉", row=said)
    platform = step(Reacting(), 2)
    assert [path.partition("/reactions")[0] for _, path in platform.calls] == ["300/messages", "300/messages/9001"]
    assert column(conn, "SELECT status FROM responses") == ["acked", "acked"]


def test_without_an_answer_it_is_repeated(conn, monkeypatch):
    monkeypatch.setenv("POSTROOM_UNKNOWN_SENDS", "hold")
    react(conn, "👀", message_id="77")
    platform = step(Reacting(silent), 2)
    assert len(platform.calls) == 2
    assert row(conn, "responses")["status"] == "acked"
    assert "response_outcome_unknown" not in column(conn, "SELECT type FROM events")


class Bot:
    """A Telegram that keeps the methods; it shows no evidence of a call without an answer."""

    def __init__(self, *script):
        self.methods = []
        self._script = list(script)

    def __call__(self, request):
        self.methods.append(request.url.path.rpartition("/")[2])
        result = {"message_id": 77} if self.methods[-1] == "sendMessage" else True
        sent = httpx.Response(200, json={"ok": True, "result": result})
        return self._script.pop(0) if self._script else sent


@pytest.mark.parametrize("method", ["setMessageReaction", "editMessageText"])
def test_after_a_kill_it_is_made_again_whatever_policy_says(conn, monkeypatch, method):
    monkeypatch.setenv("POSTROOM_UNKNOWN_SENDS", "hold")
    said = answer(conn, "one")
    step(Bot())
    reaction = {"emoji": "👀", "message_id": None, "row": said}
    answer(conn, "two", content={"reaction": reaction} if method == "setMessageReaction" else {"edits": said})
    first, second = Bot(asyncio.sleep(300)), Bot()

    async def killed():
        service = service_of(first)
        await service.claim_and_start()
        while not first.methods:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await service.close()

    async def resumed():
        service = service_of(second)
        await service.repair()
        with transaction(conn):
            rows(conn, "UPDATE responses SET deliver_after = NULL WHERE deliver_after IS NOT NULL")
        await worked(service)
        await service.close()

    asyncio.run(killed())
    assert row(conn, "responses")["status"] == "delivering"
    asyncio.run(resumed())
    assert (first.methods, second.methods) == ([method], [method])
    assert row(conn, "responses")["status"] == "acked"


def test_a_message_that_is_gone_is_a_failure_with_a_reason(conn):
    react(conn, "👀", message_id="77")
    step(Reacting(gone))
    found = row(conn, "responses")
    assert found["status"] == "dead"
    assert "Unknown Message" in found["last_error"]


def test_a_reaction_to_what_never_arrived_is_a_failure_with_a_reason(conn):
    react(conn, "👀", row=4711)
    assert step(Reacting()).calls == []
    assert "it was never delivered" in row(conn, "responses")["last_error"]


@pytest.mark.parametrize("policy", ["hold", "resend"])
def test_an_edit_whose_sender_died_is_made_again(conn, monkeypatch, policy):
    monkeypatch.setenv("POSTROOM_UNKNOWN_SENDS", policy)
    said = answer(conn, "one", channel="discord", chat="300")
    step(Reacting())
    answer(conn, "two", channel="discord", chat="300", content={"edits": said})
    edits = [call for call in step(Reacting(silent), 2).calls if call[0] != "GET"]
    assert edits == [("PATCH", "300/messages/9001")] * 2
    assert json.loads(row(conn, "responses")["parts"])[0]
    assert column(conn, "SELECT status FROM responses") == ["acked", "acked"]
