"""Real programs and the gateway: what they take is counted, a budget holds them, and an owner's yes lets them go on."""

import pytest

from tests.agents.harness import KEY
from tests.e2e.conftest import until

pytestmark = pytest.mark.agents

PROVIDERS = ("claude", "codex")
LOGINS = ("x-api-key", "authorization")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_a_program_took_is_in_the_story_of_its_message(agents, provider):
    agent = agents.make(f"counted-{provider}", provider)
    message = agents.send(agent, "count this [[say counted]]")
    agents.answer(message)
    story = agents.system.get(f"/api/messages/{message}")[1]
    (used, *_) = story["usage"]
    assert used["model"]
    assert used["paidBy"] == "key"
    assert used["requests"] >= 1
    assert used["input"] + used["cacheRead"] + used["cacheWrite"] > 0
    assert used["output"] > 0
    assert "tokens" in agents.system.get(f"/api/messages/{message}/why")[1]["reason"]
    assert any(each["agent"] == agent for each in agents.system.get("/api/usage/days")[1])


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_budget_holds_a_program_and_a_yes_lets_it_go_on(agents, provider):
    agent = agents.make(f"held-{provider}", provider)
    agents.ask(agent, "first [[say yes]]")
    budget = f"/api/agents/{agent}/budgets/day/tokens"
    spent = agents.system.call("PUT", budget, {"amount": 10**9})["budget"]["spent"]
    agents.system.call("PUT", budget, {"amount": spent})
    message = agents.send(agent, f"after the budget of {provider} [[say I go on]]")
    row = agents.until_row(message, lambda each: each["failure"] is not None)
    assert (row["failure"], row["status"], row["retry_count"]) == ("budget", "pending", 0)
    assert "is used up until" in row["last_error"]
    agents.until_alone(agent)
    assert (agents.asked(f"after the budget of {provider}"), agents.said(message)) == ([], [])

    def question():
        asked = agents.system.get("/api/approvals")[1]
        return next((each["approvalId"] for each in asked if each["kind"] == "budget" and each["agent"] == agent), None)

    approval = until("the question about the budget", question)
    agents.system.call("POST", f"/api/approvals/{approval}/decide", {"choice": 0})
    assert agents.answer(message) == "I go on"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_program_reads_a_key(agents, provider):
    agent = agents.make(f"keyless-{provider}", provider)
    agents.ask(agent, f"hello to the gateway from {provider} [[say hello]]")
    asked = agents.asked(f"hello to the gateway from {provider}")
    logins = {value for each in asked for name, value in each.headers.items() if name.lower() in LOGINS}
    assert logins in ({KEY}, {f"Bearer {KEY}"})
    files = [path for path in agents.folder(agent).rglob("*") if path.is_file()]
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []
