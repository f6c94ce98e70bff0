"""Which containment a policy takes."""

import pytest

from shared.agents.programs import containment
from shared.core.errors import ConfigInvalid


@pytest.fixture
def without_bubblewrap(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    for cached in (containment.available, containment.why_no_leash):
        cached.cache_clear()
    yield
    for cached in (containment.available, containment.why_no_leash):
        cached.cache_clear()


def test_a_leash_that_is_required_and_missing_starts_no_program(without_bubblewrap):
    assert containment.available("auto").kind != "bubblewrap"
    with pytest.raises(ConfigInvalid, match="POSTROOM_LEASH is 'required', and bubblewrap is not installed"):
        containment.available("required")


def test_a_leash_that_is_required_and_there_is_taken():
    there = containment.why_no_leash("auto") is None
    assert not there or containment.available("required").is_leash
