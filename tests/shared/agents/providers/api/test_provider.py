"""The provider ``api`` in whole turns, through the gateway, against a scripted model in its three dialects."""

import asyncio
import json
from dataclasses import replace

import pytest

from shared.agents import registry
from shared.agents.access import ToolAnswer, ToolSpec
from shared.agents.base import Attachment, Progress, Result
from shared.agents.providers.api.provider import Api
from shared.db.engine.connection import rows
from shared.queue.turns import APOLOGY
from shared.turns.run.agent_run import BEGUN_ANEW
from tests.agents.model_api import serving
from tests.serving import environment
from tests.shared.turns.run import scripted_provider
from tests.support import column, make_agent, put

__all__ = ["environment"]

KEY = "sk-our-own-key"
DIALECTS = {
    "chat": {"models": "openai"},
    "responses": {"models": "openai", "dialect": "responses"},
    "messages": {"models": "anthropic"},
    "local": {"models": "local"},
}
every_dialect = pytest.mark.parametrize("config", DIALECTS.values(), ids=DIALECTS)
SAID = "SELECT message FROM responses ORDER BY id"
FAILED = "SELECT failure, status FROM messages"


@pytest.fixture
def turns(conn, monkeypatch):
    """Runs turns about texts, one after the other, with an agent of this config; the requests of the model."""

    def go(config, *texts, script=None, settings=None):
        for name, value in (settings or {}).items():
            monkeypatch.setenv(name, value)

        async def all_of():
            async with serving(key=KEY) as api:
                for name in ("OPENAI", "LOCAL_MODELS", "ANTHROPIC"):
                    monkeypatch.setenv(f"POSTROOM_{name}_API_KEY", KEY)
                monkeypatch.setenv("POSTROOM_OPENAI_BASE_URL", f"{api.url}/v1")
                monkeypatch.setenv("POSTROOM_LOCAL_MODELS_URL", f"{api.url}/v1")
                monkeypatch.setenv("POSTROOM_ANTHROPIC_BASE_URL", api.url)
                async with scripted_provider.dispatching() as service:
                    for text in texts:
                        put(conn, text, agent="coder")
                        await service.claim_and_start()
                        while service.worker.running:  # noqa: ASYNC110
                            await asyncio.sleep(0.002)
                return api.log

        if script is None:
            make_agent(conn, "coder", provider="api", model="scripted-1", config=config)
        else:
            monkeypatch.setitem(registry._MODULES, "scripted", scripted_provider.__name__)
            monkeypatch.setattr(scripted_provider.Scripted, "script", staticmethod(script))
            make_agent(conn, "coder", provider="scripted", model="scripted-1", config=config)
        return asyncio.run(asyncio.wait_for(all_of(), 60))

    return go


@every_dialect
def test_a_message_is_answered_in_every_dialect(conn, turns, config):
    (asked,) = turns(config, "[[say hi]]")
    assert column(conn, SAID) == ["hi"]
    assert asked.conversation.is_streamed
    ((model, input_, output),) = rows(conn, "SELECT model, input, output FROM usage")
    assert (model, input_ > 0, output > 0) == ("scripted-1", True, True)


@every_dialect
def test_the_next_turn_of_the_session_knows_what_was_said(conn, turns, config):
    _, second = turns(config, "[[say one]]", "[[history]]")
    assert "one" in column(conn, SAID)[1]
    assert [each.role for each in second.conversation.entries][:3] == ["user", "assistant", "user"]


class Tools:
    """One tool, which says what it was given."""

    def __init__(self):
        self.calls = []

    def specs(self):
        return [ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})]

    async def call(self, name, arguments, *, call_id=None):
        self.calls.append((name, dict(arguments), call_id))
        return ToolAnswer("too much", is_error=True) if arguments["a"] > 9 else ToolAnswer(f"got {arguments['a']}")


@every_dialect
def test_tools_of_the_turn_are_called_in_order(conn, turns, config):
    tools = Tools()
    text = '[[tool add {"a": 1}]] [[tool add {"a": 10}]] [[result]]'
    turns(config, text, script=lambda turn: Api().run(replace(turn, tools=tools)))
    assert tools.calls == [("add", {"a": 1}, "api-1"), ("add", {"a": 10}, "api-2")]
    assert "too much" in column(conn, SAID)[0]


@every_dialect
def test_a_model_that_says_it_all_by_a_tool_needs_no_last_words(conn, turns, config):
    turns(config, '[[tool send_message {"text": "on it"}]] [[empty]]', "[[history]]")
    assert column(conn, SAID)[0] == "on it"
    assert "on it" in column(conn, SAID)[1]
    assert column(conn, "SELECT DISTINCT status FROM messages") == ["completed"]


def test_a_model_that_says_nothing_at_all_has_failed(conn, turns):
    turns({"models": "openai"}, "[[empty]]")
    assert column(conn, "SELECT last_error FROM messages") == ["the agent said nothing"]


FAILURES = {
    "401": ("[[status 401]]", "auth"),
    "404": ("[[status 404]]", "model_not_found"),
    "429": ("[[status 429 retry-after=7]]", "rate_limited"),
    "500": ("[[status 500]]", "overloaded"),
    "529": ("[[status 529]]", "overloaded"),
    "a page": ("[[html]]", None),
    "a stream that is cut": ("[[cut]]", None),
    "a stream that ends early": ("[[end]]", None),
    "no events": ("[[garbage]]", None),
}


@pytest.mark.parametrize(("text", "code"), FAILURES.values(), ids=FAILURES)
@every_dialect
def test_an_error_is_a_failed_turn_and_never_an_answer(conn, turns, config, text, code):
    turns(config, text)
    assert column(conn, SAID) in ([], [APOLOGY])
    ((failure, _),) = rows(conn, FAILED)
    assert failure == code if code else failure in ("network", "malformed", "overloaded")


def test_a_loop_of_tools_ends(conn, turns):
    tools = Tools()
    text = '[[tool add {"a": 1}]] ' * 9
    config = {"models": "openai", "max_requests": 3}
    turns(config, text, script=lambda turn: Api().run(replace(turn, tools=tools)))
    assert (len(tools.calls), column(conn, SAID)) == (3, [APOLOGY])
    assert rows(conn, "SELECT failure FROM messages") == [("runaway",)]


def test_a_model_that_falls_silent_is_a_failure(conn, turns):
    turns({"models": "openai"}, "[[stall]]", settings={"POSTROOM_IDLE_TIMEOUT_MS": "300"})
    ((failure, reason),) = rows(conn, "SELECT failure, last_error FROM messages")
    assert failure == "idle_timeout"
    assert reason.startswith(
        "the model's API sent nothing for 0.3 s, so Postroom ended it (idle_timeout_ms of the agent"
    )


def test_no_key_of_ours_is_in_its_folder(conn, turns, tmp_path):
    turns({"models": "openai"}, "hello")
    files = [path for path in (tmp_path / "agents").rglob("*") if path.is_file()]
    assert len(files) == 1
    assert KEY not in files[0].read_text()


def test_a_history_that_is_gone_is_a_lost_session_that_goes_on(conn, turns, tmp_path):
    turns({"models": "openai"}, "my name is Ana")
    for path in (tmp_path / "agents").rglob("*.json"):
        path.unlink()
    (asked,) = turns({"models": "openai"}, "hi")
    assert column(conn, SAID)[1].endswith(f"\n\n{BEGUN_ANEW}")
    assert "my name is Ana" in json.dumps(asked.body)
    assert len(column(conn, "SELECT 1 FROM events WHERE type = 'session_begun_anew'")) == 1


@pytest.mark.parametrize(("dialect", "seen"), [("messages", 2), ("chat", 1)])
def test_images_and_documents_go_to_a_model_that_takes_them(conn, turns, tmp_path, dialect, seen):
    files = {"cat.png": "image/png", "paper.pdf": "application/pdf", "notes.txt": "text/plain"}
    secret = tmp_path / "secret"
    secret.write_bytes(b"%PDF-\x89PNG")

    def script(turn):
        for name in files:
            (turn.folder / name).write_bytes(b"%PDF-\x89PNG")
        for link in ("link.png", "again.png"):
            (turn.folder / link).unlink(missing_ok=True)
        (turn.folder / "link.png").symlink_to(secret)  # by the agent, in place of a file that came
        (turn.folder / "again.png").hardlink_to(secret)
        named = {**files, "link.png": "image/png", "again.png": "image/png", "gone.png": "image/png"}
        attached = [Attachment(turn.folder / name, type_, name, "m") for name, type_ in named.items()]
        outside = Attachment(secret, "image/png", "secret", "m")
        return Api().run(replace(turn, attachments=(*attached, outside)))

    turns(
        DIALECTS[dialect],
        "[[media]]",
        "[[history]]",
        script=script,
    )
    assert len(column(conn, SAID)[0].split(", ")) == seen


WRONG = {
    "no models": ({}, "models"),
    "unknown models": ({"models": "mine"}, "models"),
    "another dialect of anthropic": ({"models": "anthropic", "dialect": "chat"}, "messages"),
    "an unknown entry": ({"models": "local", "url": "x"}, "url"),
}


@pytest.mark.parametrize(("config", "word"), WRONG.values(), ids=WRONG)
def test_a_wrong_config_is_refused_when_it_is_saved(config, word):
    with pytest.raises(Exception, match=f"config for provider 'api' is wrong.*{word}"):
        Api().check(config)


def test_an_agent_without_a_model_says_so(conn, turns):
    make_agent(conn, "coder", provider="api", config={"models": "local"})
    put(conn, agent="coder")

    async def go():
        async with scripted_provider.dispatching() as service:
            await service.claim_and_start()
            while service.worker.running:  # noqa: ASYNC110
                await asyncio.sleep(0.002)

    asyncio.run(go())
    assert rows(conn, "SELECT failure FROM messages") == [("bad_config",)]
    assert "set the model" in column(conn, "SELECT last_error FROM messages")[0]


def test_it_tells_that_it_works(turns):
    seen = []

    async def script(turn):
        async for event in Api().run(turn):
            seen.append(event)
            yield event

    turns({"models": "openai"}, "hello", script=script)
    assert next(type(event) for event in seen if isinstance(event, Progress | Result)) is Progress


@every_dialect
def test_what_comes_while_a_tool_runs_is_in_the_next_request_and_in_the_history(conn, turns, config):
    provider, taken = Api(), []

    class Telling(Tools):
        async def call(self, name, arguments, *, call_id=None):
            assert provider.hears(self.turn)
            taken.append(asyncio.create_task(provider.steer(self.turn, "<message>be quick</message>")))
            await asyncio.sleep(0)
            return await super().call(name, arguments, call_id=call_id)

    tools = Telling()

    def script(turn):
        tools.turn = turn.token
        return provider.run(replace(turn, tools=tools))

    asked = turns(config, '[[tool add {"a": 1}]] [[say done]]', "[[history]]", script=script)
    assert [each.result() for each in taken] == [True]
    told = [any("be quick" in entry.text for entry in each.conversation.entries) for each in asked]
    assert told == [False, True, True]


def test_what_comes_while_the_model_gives_its_answer_waits_for_the_next_turn(conn, turns):
    provider, taken = Api(), []

    async def script(turn):
        async for event in provider.run(turn):
            if isinstance(event, Progress):
                taken.append(asyncio.create_task(provider.steer(turn.token, "<message>too late</message>")))
                await asyncio.sleep(0)
                provider._steered[turn.token].take = list
            yield event

    turns({"models": "openai"}, "[[say done]]", script=script)
    assert column(conn, SAID) == ["done"]
    assert [each.result() for each in taken] == [False]
