import pytest

from shared.conversation.routing.addressing import Addressee, TeamName, find, find_behind_bot, find_id, prefix_pattern
from shared.core.text import patterns

AGENTS = {"assistant": "Assistant", "coder": "Code-Bot", "ops": "Operations", "dev2": "ops"}
TEAMS = {
    "build": TeamName("Builders", "coder"),
    "code-bot": TeamName("Clash", "ops"),
    "crew": TeamName("Assistant", "ops"),
}

NAMED = {
    "an agent's id": ("@coder fix it", Addressee("coder", "fix it")),
    "an id in capitals": ("@CODER fix it", Addressee("coder", "fix it")),
    "an agent's name": ("@operations look", Addressee("ops", "look")),
    "a team's id: its leader": ("@build go", Addressee("coder", "go")),
    "a team's name: its leader": ("@BUILDERS go", Addressee("coder", "go")),
    "an agent's id before a name": ("@ops look", Addressee("ops", "look")),
    "a team's id before an agent's name": ("@code-bot look", Addressee("ops", "look")),
    "an agent's name before a team's": ("@assistant hi", Addressee("assistant", "hi")),
    "lines after it": ("@coder\nfix\nit", Addressee("coder", "fix\nit")),
    "many blanks": ("@coder  \t fix", Addressee("coder", "fix")),
    "a blank and nothing else": ("@coder ", Addressee("coder", "")),
    "no blank: an account, perhaps": ("@coder", None),
    "an unknown name": ("@nobody fix it", None),
    "a colon after it": ("@coder: fix it", Addressee("coder", "fix it")),
    "a comma after a name": ("@Operations, look", Addressee("ops", "look")),
    "another mark after it": ("@coder! fix it", None),
    "an address": ("ana@coder fix", None),
    "in the middle": ("hi @coder fix it", None),
    "a blank before it": (" @coder fix it", None),
    "a bare sign": ("@ coder", None),
    "no text": ("", None),
}


@pytest.mark.parametrize(("text", "expected"), NAMED.values(), ids=NAMED)
def test_which_agent_a_text_names(text, expected):
    assert find(text, AGENTS, TEAMS) == expected
    has_mark = text.partition(" ")[0].endswith((",", ":"))
    assert find_id(text, AGENTS, TEAMS) == (None if has_mark else expected and expected.agent), "the API is strict"


AFTER_US = {
    "first": ("@coder fix", Addressee("coder", "fix")),
    "behind the bot's name": ("@our_bot @coder fix", Addressee("coder", "fix")),
    "behind a known name: that one": ("@ops @coder fix", Addressee("ops", "@coder fix")),
    "behind two": ("@our_bot @ana @coder fix", None),
    "the bot's name alone": ("@our_bot fix", None),
    "no name": ("fix", None),
}


@pytest.mark.parametrize(("text", "expected"), AFTER_US.values(), ids=AFTER_US)
def test_which_agent_a_text_names_behind_the_bots_name(text, expected):
    assert find_behind_bot(text, AGENTS, TEAMS) == expected


OWN = {
    "@coder fix": True,
    "@CODER fix": True,
    "@coder, fix": True,
    "@coder": True,
    "@coders fix": False,
    "@coder-2 fix": False,
    "hi @coder": False,
    "fix": False,
    "": False,
}


@pytest.mark.parametrize(("text", "expected"), OWN.items(), ids=repr)
def test_the_pattern_of_an_agents_own_prefix_matches_nothing_else(text, expected):
    pattern = prefix_pattern("coder")
    patterns.check(pattern)
    assert patterns.matches(pattern, text) is expected


@pytest.mark.parametrize("agent", ["a", "0-_9", "a" * 64])
def test_every_id_that_an_agent_may_have_makes_a_pattern(agent):
    patterns.check(prefix_pattern(agent))
    assert patterns.matches(prefix_pattern(agent), f"@{agent} hi")
