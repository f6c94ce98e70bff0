"""The operator's page in a real browser, in front of a whole system with work and faults behind it."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.emulator.harness import Emulator, copy_project, fetch, launch, wait_until
from tests.emulator.platforms.page.browser import Tab, started

pytestmark = pytest.mark.browser

FINDINGS = """axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations.map(
  (rule) => `${rule.id} (${rule.help}): ${rule.nodes.map((node) => node.html.slice(0, 200)).join(" | ")}`))"""
ANA = "5000000001"
DRAWN = "document.readyState === 'complete' && document.querySelector('#view h1') !== null"
CRASHES = {"provider": "command", "config": {"command": ["python3", "-c", "import sys; sys.exit(3)"]}}
SLOW = {"provider": "command", "config": {"command": ["python3", "-c", "import time; time.sleep(600)"]}}
PAGES = (
    *("", "c", "queue/waiting", "queue/running", "queue/dead", "queue/done", "agents", "schedules", "approvals"),
    *("dropped", "dropped?what=held", "replica", "past", "find/morning", f"p/telegram/{ANA}"),
)
WRITES = "[...document.querySelectorAll('#view button.act:not(.more)')].map((button) => button.innerText)"
ROWS = "[...document.querySelectorAll('#view li')].map((row) => row.innerText)"

Scenario = Callable[[Tab], Coroutine[Any, Any, None]]


def ask(running: Emulator, method: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    status, answer = fetch(
        running.url + path, method=method, body=data, headers={"content-type": "application/json"} if data else {}
    )
    assert status < 300, answer
    return json.loads(answer)


def overview(running: Emulator) -> Any:
    return ask(running, "GET", "/api/overview")


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with started(tmp_path_factory.mktemp("chromium")) as protocol:
        yield protocol


@pytest.fixture(scope="module")
def axe() -> str:
    """The script that looks for what keeps people from using a page."""
    return (files("axe_core_python") / "axe.min.js").read_text("utf-8") + "; 0"


@pytest.fixture(scope="module")
def at_work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """A conversation on Telegram, two dead messages of an agent that crashes, a turn that runs, and one behind it."""
    with working(tmp_path_factory.mktemp("desk")) as running:
        yield running


@contextmanager
def working(folder: Path) -> Iterator[Emulator]:
    """A whole system in *folder*, with work and faults."""
    project = copy_project(folder / "project")
    (project / ".env").write_text("POSTROOM_MAX_ATTEMPTS=1\n")
    running = launch(project)
    try:
        running.wait_ready()
        for agent, settings in {"crash": CRASHES, "slow": SLOW}.items():
            ask(running, "PUT", f"/api/agents/{agent}", settings)
        say(running, "Good <b>morning</b>!")
        for number, text in enumerate(("@crash one", "@crash two", "@slow first")):
            ask(running, "POST", "/api/message", {"message": text, "sender": f"person {number}", "channel": "web"})
        wait_until(lambda: ask(running, "GET", "/api/lists/running?agent=slow"), limit_s=60, what="a turn that runs")
        ask(running, "POST", "/api/message", {"message": "@slow second", "sender": "person 2", "channel": "web"})
        ask(running, "POST", "/api/schedules", {"agentId": "assistant", "message": "What is new?", "cron": "0 9 * * *"})
        wait_until(lambda: overview(running)["numbers"]["dead"] == 2, limit_s=60, what="two dead messages")
        yield running
    finally:
        running.stop()


def say(running: Emulator, text: str) -> None:
    """Ana writes to the bot on Telegram."""
    ask(running, "POST", "/_emulator/chat/telegram/say", {"chat": ANA, "person": ANA, "text": text})


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


async def text(tab: Tab, selector: str) -> str:
    return str(await tab.run(f"document.querySelector({json.dumps(selector)}).innerText"))


def test_the_first_line_is_the_answer_and_a_button_waits_until_it_can_not_be_taken_back(
    browse: Callable[..., None], at_work: Emulator
) -> None:
    async def scenario(tab: Tab) -> None:
        assert await text(tab, "h1") == "One thing needs you."
        assert "the books balance" in await text(tab, ".books")
        assert "2 messages to crash are dead" in await text(tab, ".item")
        await tab.click(".item .act")
        await tab.until("!document.querySelector('.undo').hidden")
        assert await tab.run("document.querySelector('.item').classList.contains('is-pending')")
        await tab.click(".undo button")  # Undo
        await tab.until("document.querySelector('.undo').hidden")
        assert overview(at_work)["numbers"]["dead"] == 2
        await tab.click(".item .act")
        await tab.click(".undo button:last-child")  # Do it now
        retried = 'document.querySelector("#says").innerText === "Done."'
        await tab.until(retried)

    dead = ask(at_work, "GET", "/api/lists/dead?agent=crash")
    browse(scenario)
    events = ask(at_work, "GET", f"/api/messages/{dead[0]['id']}")["events"]
    assert "message_retried" in [each["type"] for each in events]
    wait_until(lambda: overview(at_work)["numbers"]["dead"] == 2, limit_s=60, what="dead again")


def test_what_is_dead_is_retried_together_from_its_list(browse: Callable[..., None], at_work: Emulator) -> None:
    async def scenario(tab: Tab) -> None:
        await tab.until("document.querySelector('#view header .act')?.innerText === 'Retry these 2'")
        await tab.click("#view header .act")
        await tab.until("document.querySelectorAll('.rows .is-pending').length === 2")
        await tab.click(".undo button")  # Undo
        await tab.until("document.querySelectorAll('.rows .is-pending').length === 0")

    browse(scenario, "queue/dead")
    assert overview(at_work)["numbers"]["dead"] == 2


def test_each_waiting_message_says_why(browse: Callable[..., None]) -> None:
    async def scenario(tab: Tab) -> None:
        rows = "\n".join(await tab.run(ROWS))
        assert "Agent slow is working on" in rows
        assert "It is planned for later." in rows
        await tab.run("document.querySelector('.rows a').click()")
        await tab.until("document.querySelector('.story') !== null")
        assert "received, and stored" in await text(tab, ".story")

    browse(scenario, "queue/waiting")


def test_a_conversation_shows_what_people_saw_and_its_rows_beside(
    browse: Callable[..., None], at_work: Emulator
) -> None:
    async def scenario(tab: Tab) -> None:
        await tab.until("document.querySelectorAll('.bubble').length === 2")
        assert await text(tab, ".bubble .said") == "Good <b>morning</b>!"
        assert await text(tab, ".bubble.own .said") == "You said: Good <b>morning</b>!"
        assert "after the question" in await text(tab, ".line:last-child .row")
        assert await tab.run("document.querySelector('.route').getAttribute('aria-label')") == "arrived"

    (chat,) = ask(at_work, "GET", f"/api/chats?channel=telegram&platformId={ANA}")
    browse(scenario, f"c/{chat['id']}")


def test_a_new_message_appears_without_a_reload(browse: Callable[..., None], at_work: Emulator) -> None:
    async def scenario(tab: Tab) -> None:
        await tab.until("document.querySelector('.live').dataset.live === 'yes'")
        body = {"message": "@slow third", "sender": "somebody new", "channel": "web"}
        await asyncio.to_thread(ask, at_work, "POST", "/api/message", body)
        await tab.until("document.querySelector('#view').innerText.includes('@slow third')")

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
    (planned,) = [each for each in ask(at_work, "GET", "/api/calendar")["series"] if each["cron"] == "0 9 * * *"]

    async def desktop(tab: Tab) -> None:
        assert await tab.run("document.querySelectorAll('.calendar thead th').length") == 7
        assert await text(tab, ".calendar thead .today") == await tab.run(
            "document.querySelectorAll('.calendar thead th')[4].innerText"
        )
        row = await text(tab, ".calendar tbody tr")
        assert planned["label"] in row
        assert "09:00" in row
        assert await tab.run("document.querySelector('.calendar tbody .run').title") == "planned"
        await tab.run("document.querySelector('.week a').click()")  # Earlier
        await tab.until("document.querySelector('#view').innerText.includes('Nothing was due in these days')")

    async def phone(tab: Tab) -> None:
        assert await tab.run("getComputedStyle(document.querySelector('.calendar')).display") == "none"
        days = await tab.run("[...document.querySelectorAll('.runs')].map((list) => list.innerText)")
        assert any("09:00" in day and planned["label"] in day for day in days)

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


def test_words_are_found_within_one_conversation(browse: Callable[..., None], at_work: Emulator) -> None:
    (chat,) = ask(at_work, "GET", f"/api/chats?channel=telegram&platformId={ANA}")

    async def scenario(tab: Tab) -> None:
        for words, count in (("morning", 2), ("evening", 0)):
            await tab.run("document.querySelector('#within').value = ''")
            await tab.click("#within")
            await tab.type(words)
            await tab.press("Enter")
            await tab.until(f"document.querySelector('#view .note')?.innerText.includes({json.dumps(f'“{words}”')})")
            assert await tab.run("document.querySelectorAll('.bubble').length") == count
        (first, *_) = await tab.run("[...document.querySelectorAll('.places a')].map((row) => row.innerText)")
        assert "slow" in first or "crash" in first, "what was said last stands first"

    browse(scenario, f"c/{chat['id']}")


def test_an_instant_of_the_past_is_the_same_page_read_only(
    browse: Callable[..., None], at_work: Emulator, chromium: str, tmp_path: Path
) -> None:
    async def way(tab: Tab) -> None:
        assert "emulator run --from-replica s3://postroom-replica/db --timestamp 20" in await text(tab, "#command")
        assert (await text(tab, "#command")).endswith("Z")
        await tab.run("document.querySelector('#instant').value = '2026-03-01T12:00:00'")
        await tab.run("document.querySelector('#instant').dispatchEvent(new Event('input'))")
        instant = await tab.run("new Date('2026-03-01T12:00:00').toISOString().slice(0, 19) + 'Z'")
        assert (await text(tab, "#command")).endswith(f"--timestamp {instant}")

    browse(way, "past")
    wait_until(lambda: not at_work.status["replica"]["behind"], what="the replica")
    project = copy_project(tmp_path / "project")
    copy = launch(project, "--no-watch", "--from-replica", at_work.status["replica"]["url"])

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


def test_a_postroom_with_a_token_asks_for_it_and_keeps_it_for_the_tab(
    project: Path, emulator: Callable[..., Emulator], chromium: str
) -> None:
    (project / ".env").write_text("POSTROOM_API_TOKEN=the-token-of-this-postroom\n")
    running = emulator()

    async def go() -> None:
        async with aiohttp.ClientSession() as session:
            tab = await Tab.open(session, chromium, f"{running.url}/#/agents", is_ready=DRAWN)
            try:
                assert await text(tab, "h1") == "This postroom wants its token."
                for given, answered in (
                    ("a wrong one", "document.querySelector('#token').value === ''"),  # asked for anew
                    ("the-token-of-this-postroom", "document.querySelector('h1').innerText === 'Agents'"),
                ):
                    await tab.run("document.querySelector('#token').value = ''")
                    await tab.click("#token")
                    await tab.type(given)
                    await tab.press("Enter")
                    await tab.until(answered)
                await tab.until("document.querySelector('.live').dataset.live === 'yes'")
                assert await tab.run("localStorage.getItem('token')") is None
            finally:
                await tab.close()

    asyncio.run(go())
