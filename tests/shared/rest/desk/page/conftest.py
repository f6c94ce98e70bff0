"""The operator's page in a real browser, in front of one whole system for all tests of this folder."""

import asyncio
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

import aiohttp
import pytest

from tests.emulator.harness import Emulator
from tests.emulator.platforms.page.browser import Tab, started
from tests.shared.rest.desk.page.system import DRAWN, Scenario, working


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with started(tmp_path_factory.mktemp("chromium")) as protocol:
        yield protocol


@pytest.fixture(scope="session")
def axe() -> str:
    """The script that looks for what keeps people from using a page."""
    return (files("axe_core_python") / "axe.min.js").read_text("utf-8") + "; 0"


@pytest.fixture(scope="session")
def at_work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """A conversation on Telegram, two dead messages of an agent that crashes, a turn that runs, and one behind it."""
    with working(tmp_path_factory.mktemp("desk")) as running:
        yield running


@pytest.fixture
def browse(at_work: Emulator, chromium: str) -> Callable[..., None]:
    """Run a scenario with the page open; fails if the console complains, or a request goes elsewhere."""

    def run(scenario: Scenario, path: str = "", **options: Any) -> None:
        async def go() -> None:
            async with aiohttp.ClientSession() as session:
                tab = await Tab.open(session, chromium, f"{at_work.url}/#/{path}", is_ready=DRAWN, **options)
                try:
                    await scenario(tab)
                    assert tab.problems == []
                    asked = [url for url in tab.requests if not url.startswith("data:")]
                    assert {"/".join(url.split("/")[:3]) for url in asked} == {at_work.url}
                finally:
                    await tab.close()

        asyncio.run(go())

    return run
