"""What a person at the page decides and does: requests with their arguments, a mouse at a button, keys, durations."""

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator

import pytest

from shared.core.time.durations import time_span
from shared.db.engine.connection import open_connection, rows, transaction
from tests.emulator.harness import Emulator, wait_until
from tests.emulator.platforms.page.browser import Tab
from tests.shared.rest.desk.page.system import FINDINGS, ask, text

pytestmark = pytest.mark.browser

PAYLOAD = {
    "tool": "Bash",
    "turn": "turn_of_the_row",
    "arguments": {"command": "rm -rf build\ntimeout: 1", "to": ["ana@example.org", "ben@example.org"]},
}


@pytest.fixture
def asked(at_work: Emulator) -> Iterator[None]:
    """A request of a program, with an argument of two lines."""
    conn = open_connection(at_work.project / ".emulator" / "postroom.db")
    now = round(time.time() * 1000)
    made = """
        INSERT INTO approvals (approval_id, kind, agent, status, expires_at, created_at, updated_at, title, options,
                               payload)
        VALUES ('approval_hands', 'action', 'assistant', 'pending', :now + 3600000, :now, :now, 'May it?',
                '["Yes", "No"]', :payload)
    """
    with transaction(conn):
        rows(conn, made, {"now": now, "payload": json.dumps(PAYLOAD)})
    yield
    with transaction(conn):
        rows(conn, "DELETE FROM approvals WHERE approval_id = 'approval_hands'")
    conn.close()


@pytest.mark.usefixtures("asked")
def test_a_request_has_each_argument_in_a_place_of_its_own(browse: Callable[..., None], axe: str) -> None:
    async def scenario(tab: Tab) -> None:
        await tab.until("document.querySelector('.asked') !== null")
        names = await tab.run("[...document.querySelectorAll('.asked dt')].map((one) => one.innerText)")
        assert names == ["tool", "command", "to"], "what is for programs is not shown"
        values = await tab.run("[...document.querySelectorAll('.asked dd')].map((one) => one.innerText)")
        assert values[1] == "rm -rf build\ntimeout: 1"
        left = "[...document.querySelectorAll('.asked :is(dt, dd)')].map((one) => one.getBoundingClientRect().left)"
        places = await tab.run(left)
        assert max(places[0::2]) < min(places[1::2]), "no line of a value begins where a name does"
        await tab.run(axe)
        assert await tab.run(FINDINGS) == []

    browse(scenario, "approvals")
    browse(scenario, "approvals", width=390, height=800)


def test_nothing_moves_while_a_mouse_moves_over_the_buttons(browse: Callable[..., None], at_work: Emulator) -> None:
    async def scenario(tab: Tab) -> None:
        await tab.until("document.querySelector('.live').dataset.live === 'yes'")
        await tab.run("""
            window.drawn = [];
            const view = document.querySelector("#view");
            new MutationObserver(() => drawn.push(performance.now())).observe(view, {childList: true});
            document.querySelector("#view .rows .act").dispatchEvent(
                new PointerEvent("pointermove", {pointerType: "mouse", bubbles: true}));
            window.aimed = performance.now(); 0
        """)
        body = {"message": "@slow aimed at", "sender": "person 2", "channel": "web"}
        await asyncio.to_thread(ask, at_work, "POST", "/api/message", body)
        await tab.until("document.querySelector('.pill') !== null")
        assert await tab.run("drawn[0] - aimed") >= 2000

    browse(scenario, "queue/waiting")


def test_while_the_api_is_away_a_bar_says_how_old_the_page_is_and_nothing_can_be_changed(
    browse: Callable[..., None],
) -> None:
    acts = "[...document.querySelectorAll('#view button.act:not(.more)')]"
    network = """
        const real = window.fetch;
        window.fetch = (path, options) => {
            if (window.isAway) return Promise.reject(new TypeError("Failed to fetch"));
            const stream = new AbortController();
            if (path.endsWith("/changes")) window.cut = () => stream.abort();
            return real(path, path.endsWith("/changes") ? {...options, signal: stream.signal} : options);
        };
    """

    async def scenario(tab: Tab) -> None:
        await tab.send("Page.addScriptToEvaluateOnNewDocument", source=network)
        await tab.send("Page.reload")
        await tab.until(f"document.querySelector('.live').dataset.live === 'yes' && window.cut && {acts}.length")
        await tab.run("window.isAway = true; cut()")
        await tab.until("document.querySelector('.away') !== null")
        said = await text(tab, ".away")
        assert re.fullmatch(
            r"The API can't be reached since [\d:]{8}\. This page is of [\d:]{8}\. "
            r"Messages are still taken in, as long as ingest runs\. The next try is in [\w ]+\.",
            said,
        )
        assert await tab.run(f"{acts}.length && {acts}.every((one) => one.disabled)")
        await tab.run("window.isAway = false; 0")
        await tab.until("document.querySelector('.away') === null")
        assert await tab.run(f"{acts}.every((one) => !one.disabled)")

    browse(scenario, "queue/dead")


def test_the_single_keys_can_be_turned_off(browse: Callable[..., None]) -> None:
    def press(key: str) -> str:
        return f"document.body.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}}))"

    async def scenario(tab: Tab) -> None:
        for is_on in (False, True):
            await tab.run(press("?"))
            await tab.click("#single")
            assert await tab.run("document.querySelector('#single').checked") is is_on
            await tab.run("document.querySelector('dialog .act').click()")
            await tab.run(f"{press('g')}; {press('a')}")
            assert await tab.run("location.hash") == ("#/agents" if is_on else "#/queue/dead")

    browse(scenario, "queue/dead")


def test_durations_are_those_of_the_command_line(browse: Callable[..., None]) -> None:
    spans = (2 * 86_400_000 + 5 * 60_000, 5 * 3_600_000, 48 * 60_000 + 42_000, 59_999)

    async def scenario(tab: Tab) -> None:
        node = (
            'const one = document.createElement("b"); one.dataset.until = Date.now() + {ms}; document.body.append(one);'
        )
        for ms in spans:
            # The page writes it once a second: meanwhile a second or two have passed.
            await tab.run(f"{{ {node.format(ms=ms)} window.written = one; }} 0")
            said = await tab.until("written.textContent")
            assert said in {time_span(ms - passed) for passed in range(0, 3001, 250)}

    browse(scenario, "agents")


def test_why_an_answer_waits_is_said_once(browse: Callable[..., None], at_work: Emulator) -> None:
    place = {"chat": "5000000077", "person": "5000000077"}
    ask(at_work, "POST", "/_emulator/chat/telegram/say", {**place, "text": "Hello!"})
    found = "/api/chats?channel=telegram&platformId=5000000077"
    wait_until(lambda: ask(at_work, "GET", found), what="the chat")
    (chat,) = ask(at_work, "GET", found)
    conn = open_connection(at_work.project / ".emulator" / "postroom.db")
    now = round(time.time() * 1000)

    async def scenario(tab: Tab) -> None:
        await tab.until("document.querySelector('.bubble.is-unsent') !== null")
        assert (await text(tab, ".log")).count("because the platform asked for a pause") == 1

    with transaction(conn):
        rows(conn, "UPDATE chats SET not_before = ?, held_at = ? WHERE id = ?", (now + 3_600_000, now, chat["id"]))
    ask(at_work, "POST", "/_emulator/chat/telegram/say", {**place, "text": "Are you there?"})
    browse(scenario, f"c/{chat['id']}")
    with transaction(conn):
        rows(conn, "UPDATE chats SET not_before = NULL, held_at = NULL WHERE id = ?", (chat["id"],))
    conn.close()
