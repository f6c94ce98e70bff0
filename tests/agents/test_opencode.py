"""opencode itself, in a running system, against a scripted model: few tests, because each turn takes seconds."""

import pytest

pytestmark = pytest.mark.agents


@pytest.fixture(scope="module")
def helper(agents):
    return agents.make("helper-oc", "opencode", config={"models": "openai"})


def test_it_answers_remembers_and_calls_a_tool_of_postroom(agents, helper):
    assert agents.ask(helper, "my cat is Mia [[say noted]]") == "noted"
    history = agents.ask(helper, "[[tool list_destinations {}]] [[history]]")
    assert "my cat is Mia" in history
    assert "destination" in history.lower()


def test_hostile_texts_are_text_only(agents, helper):
    assert agents.ask(helper, "--help @/etc/hostname /exit [[say heard]]") == "heard"


def test_it_has_no_tools_of_its_own(agents, helper):
    tools = agents.ask(helper, "[[tools]]").split()
    assert [tool for tool in tools if not tool.startswith("postroom_")] == []


def test_a_lost_login_pauses_the_agent_and_costs_no_attempt(agents):
    agents.make("auth-oc", "opencode", config={"models": "openai"})
    row = agents.fails("auth-oc", "[[status 401]]")
    assert (row["failure"], row["status"], row["retry_count"]) == ("auth", "pending", 0)


def test_silence_is_ended_by_us_and_leaves_nothing(agents):
    agents.make("hang-oc", "opencode", config={"models": "openai"}, idle_timeout_ms=15_000)
    assert agents.fails("hang-oc", "[[hang]]", 60)["failure"] == "idle_timeout"
    assert agents.until_alone("hang-oc") < 1
