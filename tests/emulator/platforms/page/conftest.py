"""The chat page in a real browser, in front of the fakes' test world."""

import pytest

from tests.emulator.platforms.page.browser import Tab, started


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    with started(tmp_path_factory.mktemp("chromium")) as protocol:
        yield protocol


@pytest.fixture
def browse(play, chromium):
    """Run ``scenario(world, tab)`` with the chat page open; fails if the browser's console tells of a problem."""

    def run(scenario, *, query="", before=None, base="/_emulator/chat", width=1280, height=800, **options):
        async def main(world):
            await world.platforms.register()
            if before is not None:
                await before(world)
            url = f"{world.platforms.url}{base}{query}"
            tab = await Tab.open(world.session, chromium, url, width=width, height=height)
            try:
                await scenario(world, tab)
                assert tab.problems == []
            finally:
                await tab.close()

        play(main, **options)

    return run
