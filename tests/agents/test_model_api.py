"""The scripted model API: each dialect, whole and streamed, and each way to fail."""

import asyncio
import json
import urllib.request

import aiohttp
import pytest

from tests.agents.model_api import serving, serving_beside
from tests.agents.model_script import parse

PATHS = {"messages": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}
WRAPPED = '<context timezone="UTC"/>\n<message id="m1" sender="Ada" time="x">{}</message>'


def asking(dialect, *said, stream=False, tools=(), model="scripted-1"):
    """A request: *said* alternates between the person and the model."""
    turns = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(said)]
    body = {"model": model, "stream": stream, "input" if dialect == "responses" else "messages": turns}
    function = {"messages": lambda name: {"name": name, "input_schema": {}},
                "chat": lambda name: {"type": "function", "function": {"name": name}},
                "responses": lambda name: {"type": "function", "name": name}}[dialect]  # fmt: skip
    return body | ({"tools": [function(name) for name in tools]} if tools else {})


def post(dialect, *bodies, key=None, headers=None):
    """The status, headers and text of each answer, and the log."""

    async def go():
        found = []
        async with serving(key) as api, aiohttp.ClientSession() as client:
            for body in bodies:
                async with client.post(api.url + PATHS[dialect], json=body, headers=headers) as answer:
                    found.append((answer.status, answer.headers.copy(), await answer.text()))
            return found, api.log

    return asyncio.run(asyncio.wait_for(go(), 20))


def spoken(dialect, text):
    """The text of an answer, whole or streamed."""
    if not text.startswith(("event:", "data:")):
        whole = json.loads(text)
        if dialect == "messages":
            return "".join(block.get("text", "") for block in whole["content"])
        if dialect == "chat":
            return whole["choices"][0]["message"]["content"] or ""
        return "".join(part["text"] for item in whole["output"] for part in item.get("content", ()))
    data = [line[6:] for line in text.splitlines() if line.startswith("data: ") and line != "data: [DONE]"]
    events = [json.loads(line) for line in data]
    if dialect == "messages":
        return "".join(event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta")
    if dialect == "chat":
        return "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", PATHS)
class TestAnswers:
    def test_it_says_what_the_directive_says(self, dialect, stream):
        [(status, _, text)], _ = post(dialect, asking(dialect, WRAPPED.format("[[say yes &amp; no]]"), stream=stream))
        assert (status, spoken(dialect, text)) == (200, "yes & no")

    def test_a_text_without_directives_is_repeated(self, dialect, stream):
        [(_, _, text)], _ = post(dialect, asking(dialect, WRAPPED.format("hello"), stream=stream))
        assert spoken(dialect, text) == "You said: hello"

    def test_it_knows_what_was_said_before(self, dialect, stream):
        [(_, _, text)], _ = post(dialect, asking(dialect, "my cat is Mia", "ok", "[[history]]", stream=stream))
        assert spoken(dialect, text) == "user: my cat is Mia / assistant: ok"

    def test_a_tool_is_called_by_the_name_that_the_program_gave_it(self, dialect, stream):
        body = asking(
            dialect, '[[tool send_message {"text": "[[x]]"}]]', stream=stream, tools=["mcp__postroom__send_message"]
        )
        [(_, _, text)], _ = post(dialect, body)
        assert "mcp__postroom__send_message" in text
        assert "[[x]]" in text

    def test_a_long_answer_is_whole(self, dialect, stream):
        [(_, _, text)], _ = post(dialect, asking(dialect, "[[big 100000]]", stream=stream))
        assert len(spoken(dialect, text)) == 100_000


@pytest.mark.parametrize("dialect", PATHS)
class TestFailures:
    def test_a_status_happens_as_often_as_it_says(self, dialect):
        body = asking(dialect, "[[status 529 times=2 retry-after=7]] [[say better]]")
        answers, log = post(dialect, body, body, body)
        assert [status for status, _, _ in answers] == [529, 529, 200]
        assert answers[0][1]["retry-after"] == "7"
        assert [each.answered for each in log] == ["status", "status", "200"]

    def test_a_status_may_be_of_one_model_only(self, dialect):
        text = "[[status 404 model=old]] [[model]]"
        answers, _ = post(dialect, asking(dialect, text, model="old"), asking(dialect, text, model="new"))
        assert [status for status, _, _ in answers] == [404, 200]
        assert spoken(dialect, answers[1][2]) == "new"

    def test_a_key_that_is_not_the_key_is_refused(self, dialect):
        body = asking(dialect, "hello")
        assert post(dialect, body, key="k", headers={"x-api-key": "other"})[0][0][0] == 401
        assert post(dialect, body, key="k", headers={"authorization": "Bearer k"})[0][0][0] == 200

    def test_a_quota_says_until_when(self, dialect):
        [(status, headers, _)], _ = post(dialect, asking(dialect, "[[quota 7200]]"))
        assert (status, headers["retry-after"]) == (429, "7200")

    def test_a_stream_may_end_in_the_middle(self, dialect):
        [(_, _, text)], _ = post(dialect, asking(dialect, "[[end]]", stream=True))
        assert spoken(dialect, text) in "This answer is not"
        assert not any(word in text for word in ("message_stop", "[DONE]", "response.completed"))

    def test_a_stream_may_be_torn(self, dialect):
        with pytest.raises(aiohttp.ClientPayloadError):
            post(dialect, asking(dialect, "[[cut]]", stream=True))

    @pytest.mark.parametrize(("text", "sign"), [("[[html]]", "<html>"), ("[[garbage]]", "{not json")])
    def test_an_answer_may_be_nonsense(self, dialect, text, sign):
        [(status, _, answer)], _ = post(dialect, asking(dialect, text, stream=True))
        assert status == 200
        assert sign in answer


@pytest.mark.parametrize("word", ["hang", "stall"])
def test_a_model_may_fall_silent(word):
    """A client with patience for one second gives up: before the headers, or behind them."""
    body = asking("messages", f"[[{word}]]", stream=True)

    async def go():
        patience = aiohttp.ClientTimeout(total=1)
        async with (
            serving() as api,
            aiohttp.ClientSession(timeout=patience) as client,
            client.post(api.url + PATHS["messages"], json=body) as answer,
        ):
            begun = await answer.content.readuntil(b"\n\n")
            with pytest.raises(TimeoutError):
                await answer.read()
            return begun

    if word == "hang":
        with pytest.raises(TimeoutError):
            asyncio.run(go())
    else:
        assert b"message_start" in asyncio.run(go())


def test_it_may_run_beside_a_test_that_starts_processes():
    with serving_beside() as api:
        body = json.dumps(asking("messages", "hello")).encode()
        with urllib.request.urlopen(api.url + PATHS["messages"], body) as answer:
            assert spoken("messages", answer.read().decode()) == "You said: hello"
        assert len(api.asked("hello")) == 1


def test_the_directives_behind_a_tool_follow_its_result():
    text = '[[tool a {"x": 1}]] [[tool b]] [[result]]'
    call = {"type": "tool_use", "id": "t1", "name": "a", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "found 7"}
    first = asking("messages", text)
    second = asking("messages", text, [call], [result])
    third = asking("messages", text, [call], [result], [{**call, "name": "b"}], [{**result, "content": "found 8"}])
    answers, _ = post("messages", first, second, third)
    calls = [block["name"] for _, _, answer in answers[:2] for block in json.loads(answer)["content"]]
    assert (calls, spoken("messages", answers[2][2])) == (["a", "b"], "found 8")


def test_only_the_directives_of_messages_count():
    """What Postroom adds around messages may repeat old ones."""
    assert [each.word for each in parse("[[say old]] " + WRAPPED.format("[[say new]]"))] == ["say"]
    assert parse("[[say old]] " + WRAPPED.format("[[say new]]"))[0].rest == "new"


def test_a_call_that_is_made_again_has_the_id_of_the_one_before():
    text = '[[tool a {"x": 1}]] [[again a {"x": 1}]] [[say over]]'
    call = {"type": "tool_use", "id": "toolu_0001", "name": "a", "input": {"x": 1}}
    result = {"type": "tool_result", "tool_use_id": "toolu_0001", "content": "found 7"}
    second = asking("messages", text, [call], [result])
    answers, _ = post("messages", second, second)
    assert json.loads(answers[0][2])["content"] == [call]
    assert spoken("messages", answers[1][2]) == "over", "where the program keeps one result of the two"
