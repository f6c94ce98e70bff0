"""What a refused model request means for its turn."""

import pytest

from shared.queue.turns import Failure
from shared.turns.gateway.tokens import Refusal
from shared.turns.run import refusals


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("budget", "budget"),
        ("unpriced", "bad_config"),
        ("quota", "quota"),
        ("rate_limited", "rate_limited"),
        ("login_refused", "auth"),
        ("model_not_found", "model_not_found"),
        ("overloaded", "overloaded"),
        ("unreachable", "network"),
        ("cut", "network"),
    ],
)
def test_the_gateway_knows_better_than_the_program(reason, code):
    found = refusals.decide(Failure("the program's guess", retryable=False, code="error"), Refusal(reason, "why", 7))
    assert found == Failure("why", code=code, until_ms=7)


def test_a_limit_that_ended_the_program_keeps_its_word():
    failure = Failure("too much", code="output_limit")
    assert refusals.decide(failure, Refusal("overloaded", "why")) == failure


def test_a_budget_that_is_used_up_goes_before_everything():
    assert refusals.decide(Failure("x", code="killed"), Refusal("budget", "why")).code == "budget"
