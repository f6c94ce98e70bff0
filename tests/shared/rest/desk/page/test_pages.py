"""Every page, for everybody and live, in a real browser."""

import asyncio
import json
import shlex
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest

from tests.emulator.harness import Emulator, copy_project, launch, wait_until
from tests.emulator.platforms.page.browser import Tab
from tests.shared.rest.desk.page.system import ANA, DRAWN, FINDINGS, PAGES, ROWS, WRITES, ask, text

pytestmark = pytest.mark.browser


def test_each_waiting_message_says_why_and_all_are_cancelled_at_once(browse: Callable[..., None]) -> None:
    async def scenario(tab: Tab) -> None:
        rows = "\n".join(await tab.run(ROWS))
        number = await tab.run("document.querySelectorAll('.rows li').length")
        assert await text(tab, "#view header .act") == f"Cancel these {number}"
        assert (await text(tab, ".tabs a[aria-current]")).split() == ["Waiting", str(number)]
        agents = "[...document.querySelector('[aria-label=\"Only with this agent\"]').options].map((one) => one.value)"
        assert set(await tab.run(agents)) == {"", "slow", "assistant"}
        assert "Agent slow is working on" in rows
        assert "It is planned for later." in rows
        await tab.run("document.querySelector('.rows a').click()")
        await tab.until("document.querySelector('.story') !== null")
        assert "received, and stored" in await text(tab, ".story")

    browse(scenario, "queue/waiting")


def test_a_story_tells_when_its_turn_began_and_how_it_ended(browse: Callable[..., None], at_work: Emulator) -> None:
    async def scenario(tab: Tab) -> None:
        steps = await tab.run("[...document.querySelectorAll('.story li')].map((one) => one.innerText.split('\\n')[1])")
        assert steps[:3] == ["received, and stored", "turn begun", "given up"]

    (dead, *_) = ask(at_work, "GET", "/api/lists/dead?agent=crash")
    browse(scenario, f"m/{dead['id']}")


def test_a_new_message_waits_behind_a_pill_without_a_reload(browse: Callable[..., None], at_work: Emulator) -> None:
    async def scenario(tab: Tab) -> None:
        await tab.until("document.querySelector('.live').dataset.live === 'yes'")
        before = await tab.run(ROWS)
        body = {"message": "@slow third", "sender": "somebody new", "channel": "web"}
        await asyncio.to_thread(ask, at_work, "POST", "/api/message", body)
        await tab.until("document.querySelector('.pill')?.innerText === '1 new row'")
        assert len(await tab.run(ROWS)) == len(before)
        await tab.click(".pill button")
        await tab.until("document.querySelector('#view').innerText.includes('@slow third')")
        assert await tab.run("document.querySelector('.pill') === null")

    browse(scenario, "queue/waiting")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 800)], ids=["desktop", "phone"])
def test_axe_finds_nothing_on_any_page_and_none_scrolls_sideways(
    browse: Callable[..., None], at_work: Emulator, axe: str, scheme: str, width: int, height: int
) -> None:
    (dead, *_) = ask(at_work, "GET", "/api/lists/dead?agent=crash")

    async def scenario(tab: Tab) -> None:
        await tab.run(axe)
        for page in (*PAGES, f"m/{dead['id']}"):
            await tab.run(f"location.hash = '#/{page}'")
            await tab.until(f"document.querySelector('#view').dataset.of.startsWith('#/{page}')")
            assert await tab.run(FINDINGS) == [], page
            assert await tab.run("document.documentElement.scrollWidth <= innerWidth"), page
            assert await tab.run("document.querySelectorAll('h1').length") == 1, page
        await tab.run("document.querySelector('#view h1').innerHTML = '<img src=\"data:,\">'")
        assert "image-alt" in str(await tab.run(FINDINGS)), "axe finds what is there"

    browse(scenario, scheme=scheme, width=width, height=height)


def test_an_address_without_the_words_that_its_page_needs_shows_the_overview(browse: Callable[..., None]) -> None:
    async def scenario(tab: Tab) -> None:
        title = await text(tab, "#view h1")
        for page in ("find", "find/", "p", "p/telegram", "m"):
            await tab.run(f"location.hash = '#/{page}'")
            await tab.until(f"document.querySelector('#view').dataset.of === '#/{page}'")
            assert await text(tab, "#view h1") == title, page
            assert await tab.run("document.querySelector('.problem.main') === null"), page

    browse(scenario)


def test_axe_finds_nothing_on_the_chat_page(at_work: Emulator, axe: str, chromium: str) -> None:
    async def go() -> None:
        async with aiohttp.ClientSession() as session:
            for scheme, width in (("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)):
                tab = await Tab.open(session, chromium, f"{at_work.url}/_emulator/chat", scheme=scheme, width=width)
                await tab.run(axe)
                assert await tab.run(FINDINGS) == [], (scheme, width)
                await tab.close()

    asyncio.run(go())


def test_the_schedules_are_a_calendar_and_on_a_phone_a_list_by_day(
    browse: Callable[..., None], at_work: Emulator
) -> None:
    async def desktop(tab: Tab) -> None:
        assert await tab.run("document.querySelectorAll('.calendar thead th').length") == 7
        assert await text(tab, ".calendar thead .today") == await tab.run(
            "document.querySelectorAll('.calendar thead th')[4].innerText"
        )
        row = await text(tab, ".calendar tbody tr")
        assert "What is new?" in row
        assert "09:00" in row
        assert await tab.run("document.querySelector('.calendar tbody .run').title") == "planned"
        await tab.run("document.querySelector('.week a').click()")  # Earlier
        await tab.until("document.querySelector('#view').innerText.includes('Nothing was due in these days')")

    async def phone(tab: Tab) -> None:
        assert await tab.run("getComputedStyle(document.querySelector('.calendar')).display") == "none"
        days = await tab.run("[...document.querySelectorAll('.runs')].map((list) => list.innerText)")
        assert any("09:00" in day and "What is new?" in day for day in days)

    browse(desktop, "schedules")
    browse(phone, "schedules", width=390, height=800)


def test_a_slash_goes_to_the_search_which_finds_ids_chats_and_words(
    browse: Callable[..., None], at_work: Emulator
) -> None:
    (chat,) = ask(at_work, "GET", f"/api/chats?channel=telegram&platformId={ANA}")
    (dead, *_) = ask(at_work, "GET", "/api/lists/dead?agent=crash")

    async def find(tab: Tab, words: str) -> str:
        await tab.run("document.body.dispatchEvent(new KeyboardEvent('keydown', {key: '/', bubbles: true}))")
        assert await tab.run("document.activeElement.id") == "find"
        await tab.run("document.querySelector('#find').value = ''")
        await tab.type(words)
        await tab.press("Enter")
        await tab.until(f"document.querySelector('h1').innerText === {json.dumps(f'“{words}”')}")
        return await text(tab, "#view")

    async def scenario(tab: Tab) -> None:
        assert dead["reason"] in await find(tab, dead["id"])
        await find(tab, chat["name"])
        assert await tab.run(f"document.querySelector('a[href=\"#/c/{chat['id']}\"]') !== null")
        assert "Good <b>morning</b>!" in await find(tab, "MORNING")
        assert "Nothing found" in await find(tab, "of which nobody spoke")

    browse(scenario, "agents")


def test_an_address_that_leads_nowhere_is_told_in_place_of_the_page_before(browse: Callable[..., None]) -> None:
    async def scenario(tab: Tab) -> None:
        await tab.run("location.hash = '#/m/%'")
        await tab.until("document.querySelector('h1').innerText === 'No such message'")
        await tab.run("location.hash = '#/c/999999'")
        await tab.until("document.querySelector('h1').innerText === \"This page can't be shown\"")
        assert "there is no chat 999999" in await text(tab, ".problem")
        assert await tab.run("document.querySelectorAll('#view section').length") == 0
        tab.problems.clear()  # the browser's own words about a 404

    browse(scenario, "agents")


def test_an_instant_of_the_past_is_the_same_page_read_only(
    browse: Callable[..., None], at_work: Emulator, chromium: str, tmp_path: Path
) -> None:
    async def way(tab: Tab) -> None:
        assert "emulator run --from-replica 's3://postroom-replica/db?endpoint=http://127" in await text(
            tab, "#command"
        )
        assert (await text(tab, "#command")).endswith("Z")
        instant = await tab.run("new Date('2026-03-01T12:00:00').toISOString().slice(0, 19) + 'Z'")
        assert (await command(tab, "2026-03-01T12:00:00")).endswith(f"--timestamp {instant}")
        copied.append(await command(tab, ""))

    async def command(tab: Tab, instant: str) -> str:
        """In one step, since a page whose field has no focus is drawn anew after a change."""
        field = "document.querySelector('#instant')"
        typed = f"{field}.value = '{instant}', {field}.dispatchEvent(new Event('input'))"
        return str(await tab.run(f"({typed}, document.querySelector('#command').innerText)"))

    wait_until(lambda: not at_work.status["replica"]["behind"], what="the replica")
    copied: list[str] = []
    browse(way, "past")
    _, _, *options = shlex.split(copied[0])
    copy = launch(copy_project(tmp_path / "project"), *options, "--no-watch")

    async def look(url: str) -> None:
        async with aiohttp.ClientSession() as session:
            tab = await Tab.open(session, chromium, f"{url}/#/", is_ready=DRAWN)
            try:
                for page in PAGES:
                    await tab.run(f"location.hash = '#/{page}'")
                    await tab.until(f"location.hash === '#/{page}' && document.querySelector('.past') !== null")
                    assert (await text(tab, ".past")).startswith("The past, as of "), page
                    assert await tab.run(WRITES) == [], page
                await tab.run("location.hash = '#/queue/dead'")
                await tab.until("document.querySelectorAll('.rows li').length === 2")
                assert tab.problems == []
            finally:
                await tab.close()

    try:
        copy.wait_ready()
        (urls,) = [line["urls"] for line in copy.lines if line.get("event") == "emulator.ready"]
        asyncio.run(look(urls["gateway"]))
    finally:
        copy.stop()


def test_a_postroom_with_a_token_asks_for_it_and_keeps_it_for_the_tab(tmp_path: Path, chromium: str) -> None:
    project = copy_project(tmp_path / "project")
    (project / ".env").write_text("POSTROOM_API_TOKEN=the-token-of-this-postroom\n")
    running = launch(project)
    asks = "document.querySelector('h1').innerText === 'This Postroom needs its token.'"

    async def go() -> None:
        async with aiohttp.ClientSession() as session:
            tab = await Tab.open(session, chromium, f"{running.url}/#/agents", is_ready=DRAWN)
            try:
                for given, answered in (
                    ("the token: “…”", "document.querySelector('.top p').innerText.includes('copy the token alone')"),
                    ("a wrong one", f"{asks} && document.querySelector('.live span').innerText === 'not let in'"),
                    ("the-token-of-this-postroom", "document.querySelector('h1').innerText === 'Agents'"),
                ):
                    await tab.until(f"{asks} && document.activeElement.id === 'token'")
                    await tab.run("document.querySelector('#token').value = ''")
                    await tab.type(given)
                    await tab.press("Enter")
                    await tab.until(answered)
                await tab.until("document.querySelector('.live').dataset.live === 'yes'")
                assert await tab.run("localStorage.getItem('token')") is None
            finally:
                await tab.close()

    try:
        running.wait_ready()
        asyncio.run(go())
    finally:
        running.stop()
