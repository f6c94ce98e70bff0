"""A poll and a topic are responses in their chat's order; what is written into a topic goes there, or nowhere."""

import json

import httpx
import pytest

from shared.runtime.http_client import NoAnswer
from tests.functions.deliver.sending import step
from tests.support import answer, column, row

POLL = {"question": "Lunch?", "options": ["Pizza", "Noodles"], "is_multiple": False, "hours": 24}


class Telegram:
    """A Telegram that keeps the method and the parameters of each call, and makes topic 42."""

    def __init__(self, *script):
        self.calls = []
        self._script = list(script)

    def __call__(self, request):
        method = request.url.path.rpartition("/")[2]
        self.calls.append((method, json.loads(request.content)))
        if self._script:
            return self._script.pop(0)()
        made = {"message_thread_id": 42, "name": "Plans", "icon_color": 1}
        result = made if method == "createForumTopic" else {"message_id": 900 + len(self.calls)}
        return httpx.Response(200, json={"ok": True, "result": result})


def refused():
    description = "Bad Request: the chat is not a forum"
    return httpx.Response(400, json={"ok": False, "error_code": 400, "description": description})


def silent():
    raise NoAnswer("nothing came")


def busy():
    return httpx.Response(503, json={"ok": False, "error_code": 503, "description": "later"})


def test_a_poll_goes_out_as_one_message(conn):
    answer(conn, "Lunch?\n- Pizza\n- Noodles", content={"poll": POLL})
    ((method, body),) = step(Telegram()).calls
    assert (method, body["question"], body["options"]) == (
        "sendPoll",
        "Lunch?",
        [{"text": "Pizza"}, {"text": "Noodles"}],
    )
    found = row(conn, "responses")
    assert (found["status"], json.loads(found["parts"])) == ("acked", ["901"])


def test_the_text_of_a_topic_is_written_into_it(conn):
    answer(conn, "Who comes?\n\n" + "word " * 200, content={"topic": "Plans"})
    calls = step(Telegram()).calls
    assert [method for method, _ in calls] == ["createForumTopic", "sendMessage"]
    assert calls[0][1] == {"chat_id": 100, "name": "Plans"}
    assert {body["message_thread_id"] for _, body in calls[1:]} == {42}
    found = row(conn, "responses")
    assert (found["status"], json.loads(found["parts"])[0]) == ("acked", "42")


def test_a_failure_after_the_topic_makes_no_second_one(conn):
    answer(conn, "Who comes?", content={"topic": "Plans"})
    made = httpx.Response(200, json={"ok": True, "result": {"message_thread_id": 42}})
    platform = step(Telegram(lambda: made, busy), 2)
    assert [method for method, _ in platform.calls].count("createForumTopic") == 1
    assert [body["message_thread_id"] for method, body in platform.calls if method == "sendMessage"] == [42, 42]


@pytest.mark.parametrize("thread", [None, "7"])
def test_without_the_topic_nothing_is_written_anywhere(conn, thread):
    answer(conn, "Who comes?", content={"topic": "Plans"}, thread_id=thread)
    platform = step(Telegram(refused))
    assert [method for method, _ in platform.calls] == ["createForumTopic"]
    assert column(conn, "SELECT status FROM responses") == ["dead"]


def test_a_topic_without_an_answer_counts_as_unknown(conn, monkeypatch):
    monkeypatch.setenv("POSTROOM_UNKNOWN_SENDS", "hold")
    answer(conn, "Who comes?", content={"topic": "Plans"})
    step(Telegram(silent))
    assert "response_outcome_unknown" in column(conn, "SELECT type FROM events")
