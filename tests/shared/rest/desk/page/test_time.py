"""Times on the page where the clock of the emulator is moved, in a real browser. The last file: it moves all clocks."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.emulator.harness import Emulator
from tests.emulator.platforms.page.browser import Tab
from tests.shared.rest.desk.page.system import ask, text

pytestmark = pytest.mark.browser


def test_a_clock_that_is_not_the_real_one_is_told_and_ages_are_of_it(
    browse: Callable[..., None], at_work: Emulator
) -> None:
    # The leap ends the turn that runs, and the message behind it begins: this one still waits.
    ask(at_work, "POST", "/api/message", {"message": "@slow third", "sender": "person 2", "channel": "web"})
    at_work.clock.jump(timedelta(days=2), leap=True)

    async def scenario(tab: Tab) -> None:
        assert re.match(r"The clock here is (2 d|1 d 23 h).* ahead of this computer's\. ", await text(tab, ".past"))
        assert re.search(r"Oldest\s+(2 d|1 d 23 h)", await text(tab, ".numbers")), "what waits since before the leap"

    browse(scenario)
