"""The pages of the channels in the docs: each is what its manifest says."""

from pathlib import Path

import pytest

from shared.channels import manifest_page, registry

DOCS = Path(__file__).parents[3] / "docs/channels"


@pytest.mark.parametrize("name", registry.PLATFORMS)
def test_the_page_of_a_channel_is_what_its_manifest_says(name):
    wanted = manifest_page.page(registry.manifest(name))
    again = f"python -m shared.channels.manifest_page {name} > docs/channels/{name}.md"
    assert (DOCS / f"{name}.md").read_text() == wanted, again


def test_there_is_no_page_without_a_channel():
    assert {each.stem for each in DOCS.glob("*.md")} == set(registry.PLATFORMS)


@pytest.mark.parametrize("name", registry.PLATFORMS)
def test_a_channel_is_set_up_from_nothing_in_ten_steps_at_most(name):
    assert 1 <= len(registry.manifest(name).steps) <= 10
