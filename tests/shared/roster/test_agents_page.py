"""The page of an agent's settings in the docs."""

from pathlib import Path

from shared.roster import agents_page

PAGE = Path(__file__).parents[3] / "docs/agents/settings.md"


def test_the_page_in_the_docs_is_what_the_settings_say():
    again = "python -m shared.roster.agents_page > docs/agents/settings.md"
    assert PAGE.read_text() == agents_page.page(), again
