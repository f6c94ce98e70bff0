"""The page of the field's failures has every scenario."""

from pathlib import Path

import pytest

from tests.field.page import GROUPS, page, scenarios

pytestmark = pytest.mark.any_python
PAGE = Path(__file__).parents[2] / "docs/field-failures.md"


def test_the_page_is_written_from_the_scenarios() -> None:
    """``python -m tests.field.page > docs/field-failures.md`` writes it."""
    assert PAGE.read_text() == page()


def test_every_scenario_says_what_was_reported_and_where() -> None:
    found = [each for group in GROUPS for each in scenarios(group)]
    assert len(found) >= 40
    assert [name for name, test, report in found if not (test.__doc__ and report.sources)] == []
