"""What the page keeps while it is drawn anew beneath a person, and what it says of a refusal and a silent stream."""

import json
from collections.abc import Callable

import pytest

from shared.db.engine.connection import open_connection, rows, transaction
from tests.emulator.harness import Emulator
from tests.emulator.platforms.page.browser import Tab
from tests.shared.rest.desk.page.system import ask, text

pytestmark = pytest.mark.browser

# Counts how often the page is drawn, and draws it.
_WATCH = """
    window.drawn = 0;
    new MutationObserver(() => drawn++).observe(document.querySelector("#view"), {childList: true});
    window.again = () => {
        const before = drawn;
        document.dispatchEvent(new Event("visibilitychange"));
        return before;
    };
    0
"""


async def drawn_anew(tab: Tab) -> None:
    """Return when the page was drawn once more."""
    before = await tab.run("again()")
    await tab.until(f"drawn > {before}")


def test_a_refusal_stays_on_the_page_when_that_is_drawn_anew(browse: Callable[..., None], at_work: Emulator) -> None:
    conn = open_connection(at_work.project / ".emulator" / "postroom.db")
    (dead, *_) = ask(at_work, "GET", "/api/lists/dead?agent=crash")

    def become(status: str) -> None:
        with transaction(conn):
            rows(conn, "UPDATE messages SET status = ? WHERE id = ?", (status, dead["row"]))

    async def scenario(tab: Tab) -> None:
        await tab.until("document.querySelector('#view .rows .act') !== null")
        await tab.run(_WATCH)
        await tab.run(f"document.querySelector('[data-key={json.dumps(dead['id'])}] .act').click()")
        become("cancelled")  # by another operator, meanwhile
        await tab.run("document.querySelector('.undo button:last-child').click()")  # Do it now
        await tab.until("!document.querySelector('.refused').hidden")
        await drawn_anew(tab)
        await drawn_anew(tab)
        assert (await text(tab, ".refused span")).startswith(f"Retry: {dead['id']}. Refused: ")
        await tab.click(".refused button")
        assert await tab.run("document.querySelector('.refused').hidden")
        become("dead")
        tab.problems.clear()  # the console tells of the refusal too

    try:
        browse(scenario, "queue/dead")
    finally:
        become("dead")
        conn.close()


@pytest.mark.parametrize(
    ("path", "selector"),
    [
        ("queue/dead", "#view .rows li a"),
        ("queue/dead", "#view .tabs a:nth-child(2)"),
        ("queue/dead", "#view .rows li .act:last-child"),
        ("queue/dead", "nav a[href='#/agents']"),
        ("agents", "#view li:nth-child(2) .act"),
        ("c", ".places a"),
        ("c", ".log"),
    ],
)
def test_what_has_the_focus_keeps_it_when_the_page_is_drawn_anew(
    browse: Callable[..., None], path: str, selector: str
) -> None:
    async def scenario(tab: Tab) -> None:
        found = f"document.querySelector({json.dumps(selector)})"
        await tab.until(f"{found} !== null")
        await tab.run(_WATCH)
        await tab.run(f"{found}.focus()")
        for _ in range(2):
            await drawn_anew(tab)
            assert await tab.run(f"document.activeElement === {found}"), await tab.run(
                "document.activeElement.outerHTML"
            )

    browse(scenario, path)


def test_a_stream_that_says_nothing_any_more_is_told_as_lost(browse: Callable[..., None]) -> None:
    """A network that a laptop has left ends no connection."""
    network = """
        const [real, later] = [window.fetch, window.setTimeout];
        window.setTimeout = (run, ms, ...more) => later(run, ms > 20000 ? 200 : ms, ...more);
        window.fetch = async (path, options) => {
            if (!path.endsWith("/changes")) return real(path, options);
            return {ok: true, status: 200, body: new ReadableStream({start(all) {
                options.signal.addEventListener("abort", () => all.error(new Error("aborted")));
            }})};
        };
    """

    async def scenario(tab: Tab) -> None:
        await tab.send("Page.addScriptToEvaluateOnNewDocument", source=network)
        await tab.send("Page.reload")
        await tab.until("document.querySelector('.live span').innerText === 'connection lost'")

    browse(scenario, "queue/dead")


def test_selected_text_stays_to_be_copied(browse: Callable[..., None]) -> None:
    async def scenario(tab: Tab) -> None:
        await tab.until("document.querySelector('.live').dataset.live === 'yes'")
        await tab.run(_WATCH)
        await tab.run("getSelection().selectAllChildren(document.querySelector('#view .rows .reason')); 0")
        await tab.until("document.querySelector('.live span').innerText === 'paused: text is selected'")
        chosen = await tab.run("String(getSelection())")
        await tab.run("again(); new Promise((go) => setTimeout(go, 400))")
        assert chosen
        assert await tab.run("[drawn, String(getSelection())]") == [0, chosen]
        await tab.run("getSelection().removeAllRanges(); 0")
        await tab.until("drawn > 0 && document.querySelector('.live').dataset.live === 'yes'")

    browse(scenario, "queue/dead")


def test_a_list_that_was_scrolled_is_where_it_was(browse: Callable[..., None], at_work: Emulator) -> None:
    for number in range(30):
        ask(at_work, "POST", "/api/chats", {"channel": "web", "platformId": f"place {number}", "name": f"{number}"})

    async def scenario(tab: Tab) -> None:
        await tab.until("document.querySelectorAll('.places li').length > 30")
        await tab.run(_WATCH)
        await tab.run("document.querySelector('.places').scrollTop = 300; 0")
        await drawn_anew(tab)
        assert await tab.run("document.querySelector('.places').scrollTop") == 300

    browse(scenario, "c")
