"""Which providers exist, and what answers in the place of those that are not here."""

import pytest

from shared.agents import registry
from shared.agents.base import Failed, Init, Result, Text
from shared.core.errors import UnknownName
from tests.shared.agents.providers.turns import run, turn


def test_only_listed_providers_exist():
    with pytest.raises(UnknownName, match="unknown provider 'os'; known: "):
        registry.get("os")


@pytest.mark.parametrize(("name", "provider"), [("anthropic", "claude"), ("openai", "codex")])
def test_tinyagis_names_are_the_programs_that_its_agents_run(name, provider):
    assert type(registry.get(name)) is type(registry.get(provider))
    assert {name, provider} <= {*registry.PROGRAMS}


def test_echo_answers_while_auto_has_nothing_to_choose_and_says_so():
    name = "auto"
    said = "(No agent's program can work on this machine yet (`emulator doctor` says why): 'echo' answers for now.)"
    assert run(name, turn("hello", "!say a | b")) == [
        *(Init("1"), Text(f"{said}\n\nYou said: hello", "m0"), Text(f"{said}\n\na", "m1"), Text(f"{said}\n\nb", "m1")),
        Result(),
    ]
    assert run(name, turn("!reject")) == [Init("1"), Failed("rejected on request", retryable=False)]
    registry.get(name).check({"anything": "for later"})
