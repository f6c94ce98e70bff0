"""How many examples a property test draws: a few in the everyday tests, all of them in ``make long``."""

import os
from typing import Any

import hypothesis

_ALL = "POSTROOM_TEST_ALL_EXAMPLES"
_SHARE = 5  # of the examples, the everyday tests draw one in so many
_FEWEST = 20


def examples(count: int, **options: Any) -> hypothesis.settings:
    """The settings of a property test that draws *count* examples where there is time."""
    few = max(_FEWEST, count // _SHARE)
    return hypothesis.settings(max_examples=count if _ALL in os.environ else min(count, few), **options)
