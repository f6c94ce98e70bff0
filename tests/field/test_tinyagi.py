"""The same scenarios through TinyAGI's API: another system in the place of Postroom is an adapter of a page."""

from collections.abc import Callable, Iterator

import pytest

from tests.field import test_misrouted
from tests.field.tinyagi import TinyAgi
from tests.field.world import World

pytestmark = pytest.mark.long

SCENARIOS = (test_misrouted.test_people_who_write_at_once_get_their_own_answers,)


@pytest.fixture(scope="module")
def tinyagi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("tinyagi")
    (folder / "system").mkdir()
    found = World(TinyAgi(folder / "system"), folder / "platforms")
    try:
        found.begin()
        yield found
    finally:
        found.close()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_scenario_holds_through_the_adapter(tinyagi: World, scenario: Callable[[World], None]) -> None:
    scenario(tinyagi)
