"""The models that an agent uses in place of its own."""

import asyncio

import pytest

from shared.agents.base import Acted, Failed, Init, Result, Text
from shared.turns.run import model_fallback

OVERLOADED = Failed("529", code="overloaded")


def run(does, *, has_spoken=False, cause=lambda failed: failed.code):
    """The events, and the models that were asked; *does*: the events of each model, in order."""
    asked = []

    async def with_model(model):
        asked.append(model)
        for event in does[model]:
            yield event

    async def go():
        running = model_fallback.run(with_model, list(does), cause=cause, has_spoken=lambda: has_spoken, agent="bot")
        return [event async for event in running]

    return asyncio.run(go()), asked


@pytest.mark.parametrize("code", ["overloaded", "model_not_found", "rate_limited"])
def test_the_next_model_answers_where_one_can_not(code):
    does = {None: [Failed("x", code=code)], "b": [Failed("y", code=code)], "c": [Result("hi")]}
    assert run(does) == ([Result("hi")], [None, "b", "c"])


@pytest.mark.parametrize(
    "code", ["auth", "quota", "budget", "error", "idle_timeout", "context_too_long", "session_lost"]
)
def test_other_failures_are_not_the_models(code):
    failed = Failed("x", code=code)
    assert run({"a": [failed], "b": [Result("hi")]}) == ([failed], ["a"])


@pytest.mark.parametrize("event", [Acted("send_message"), Text("so")])
def test_a_turn_that_has_acted_or_said_something_keeps_its_model(event):
    assert run({"a": [event, OVERLOADED], "b": [Result("hi")]}) == ([event, OVERLOADED], ["a"])


def test_a_turn_that_has_spoken_keeps_its_model():
    assert run({"a": [OVERLOADED], "b": [Result("hi")]}, has_spoken=True) == ([OVERLOADED], ["a"])


def test_the_failure_of_the_last_model_is_the_turns():
    last = Failed("last", code="overloaded")
    assert run({"a": [Init("1"), OVERLOADED], "b": [last]}) == ([Init("1"), last], ["a", "b"])


def test_a_model_that_answers_is_the_only_one():
    assert run({"a": [Result("hi")], "b": [Result("no")]}) == ([Result("hi")], ["a"])


def test_the_gateway_knows_the_cause():
    does = {"a": [Failed("a guess")], "b": [Result("hi")]}
    assert run(does, cause=lambda _: "overloaded") == ([Result("hi")], ["a", "b"])
