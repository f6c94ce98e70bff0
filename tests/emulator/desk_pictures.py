"""``python -m tests.emulator.desk_pictures``: write the pictures of the operator's page in the README.

They show a whole system with work and faults, in a headless Chromium (``make browser`` installs one).
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp

from tests.emulator.harness import Emulator, wait_until
from tests.emulator.platforms.page.browser import Tab, started
from tests.shared.rest.desk.page.system import ANA, ask, overview, say, working

FOLDER = Path(__file__).parents[2] / "docs/images"
SAID = (
    "What did the shops sell in October?",
    "!say The shops sold for 41 200 in October, 3 % more than last year. | The one in Bern sold most, for 12 950.",
    "@crash Please send that to everybody as a table",
    "Thank you!",
)


def main() -> None:
    """Write both pictures."""
    with (
        TemporaryDirectory() as folder,
        started(Path(folder) / "chromium") as protocol,
        working(Path(folder)) as running,
    ):
        for number, text in enumerate(SAID):
            say(running, text)
            wait_until(lambda number=number: len(lines(running)) > number + 1, what=text)  # type: ignore[misc]
        wait_until(lambda: overview(running)["numbers"]["dead"] == 3, what="three dead messages")
        wait_until(lambda: lines(running)[0]["said"], what="the last answer")
        asyncio.run(draw(running, protocol))


def lines(running: Emulator) -> list[dict[str, object]]:
    """The conversation with Ana, newest first."""
    (chat,) = ask(running, "GET", f"/api/chats?channel=telegram&platformId={ANA}")
    found: list[dict[str, object]] = ask(running, "GET", f"/api/chats/{chat['id']}/log")
    return found


async def draw(running: Emulator, protocol: str) -> None:
    """The overview in light, the conversation in dark."""
    (chat,) = ask(running, "GET", f"/api/chats?channel=telegram&platformId={ANA}")
    async with aiohttp.ClientSession() as session:
        for name, page, scheme, height in (("light", "", "light", 660), ("dark", f"c/{chat['id']}", "dark", 700)):
            url = f"{running.url}/#/{page}"
            ready = (
                "document.querySelector('.live').dataset.live === 'yes' && document.querySelector('#view h1') !== null"
            )
            tab = await Tab.open(session, protocol, url, scheme=scheme, height=height, is_ready=ready)
            (FOLDER / f"desk-{name}.png").write_bytes(await tab.picture())
            await tab.close()


if __name__ == "__main__":
    main()
