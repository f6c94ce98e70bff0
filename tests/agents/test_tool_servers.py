"""Real programs start a tool server of their agent, on their leash."""

import itertools
import sys
from pathlib import Path

import pytest

from tests.agents import weather_server
from tests.agents.test_permissions import decide, until_asked

pytestmark = pytest.mark.agents

_names = itertools.count(1)
SERVER = Path(weather_server.__file__)
CONFIGS = {"claude": {}, "codex": {}, "opencode": {"models": "openai"}}


@pytest.fixture
def forecaster(agents, provider):
    """An agent that may look at the weather, and not change it."""
    body = {"command": [sys.executable, "-I", str(SERVER)], "tools": {"look": "The weather of a town."}}
    agents.system.call("PUT", "/api/tool-servers/weather", body)
    bot = agents.make(f"forecaster-{next(_names)}-{provider}", provider, config=CONFIGS[provider])
    agents.system.call("PUT", f"/api/agents/{bot}/tool-servers/weather")
    return bot


@pytest.mark.parametrize("provider", CONFIGS)
def test_the_tools_that_were_shown_are_called_and_no_others(agents, forecaster):
    assert "look: sun in Bern" in agents.ask(forecaster, '[[tool look {"at": "Bern"}]] [[result]]')
    message = agents.send(forecaster, '[[tool change {"at": "Bern"}]] [[result]]')
    if forecaster.endswith("claude"):  # it asks about what its tools do not allow
        asked = until_asked(agents, forecaster)
        assert asked["payload"]["tool"] == "mcp__weather__change"
        decide(agents, asked, approve=False)
    assert "sun in Bern" not in agents.answer(message)


@pytest.mark.parametrize("provider", ["claude", "codex"])
def test_each_call_is_asked_where_the_config_says_so(agents, forecaster, provider):
    agents.make(forecaster, provider, config={"ask": "changes"})
    message = agents.send(forecaster, '[[tool look {"at": "Chur"}]] [[result]]')
    asked = until_asked(agents, forecaster)
    assert asked["payload"]["arguments"] == {"at": "Chur"}
    decide(agents, asked, choice=1)
    assert "look: sun in Chur" in agents.answer(message)
    agents.ask(forecaster, '[[tool look {"at": "Chur"}]] [[say again]]')
