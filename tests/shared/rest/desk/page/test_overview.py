"""The first page and its buttons, in a real browser."""

import time
from collections.abc import Callable, Iterator

import pytest

from shared.db.alerts import alerts, tellings
from shared.db.alerts.alerts import Trouble
from shared.db.engine.connection import open_connection, transaction
from shared.db.roster import chats
from shared.queue import notices
from tests.emulator.harness import Emulator, wait_until
from tests.emulator.platforms.page.browser import Tab
from tests.shared.rest.desk.page.system import FINDINGS, ask, overview, text

pytestmark = pytest.mark.browser


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


@pytest.fixture
def notice(at_work: Emulator) -> Iterator[int]:
    """A message of an alert that Telegram refused; its row."""
    told = {"channel": "telegram", "platformId": "-100777", "isGroup": True, "name": "On call"}
    chat_id = ask(at_work, "POST", "/api/chats", told)["chat"]["id"]
    ask(at_work, "PUT", "/api/alerts/routes/ops", {"chatId": chat_id, "kinds": ["disk"]})
    conn, now_ms = open_connection(at_work.project / ".emulator" / "postroom.db"), round(time.time() * 1000)
    trouble = Trouble("disk", "disk", "The disk is filling", "So it is.", "Mend it.", now_ms)
    fate = "UPDATE responses SET status = :status, failure = 'error', last_error = 'chat not found' WHERE id = :row"
    with transaction(conn):
        chat = chats.get(conn, chat_id)
        assert chat is not None
        row = notices.write(conn, chat, "The disk is filling", now_ms=now_ms)
        conn.execute(fate, {"status": "dead", "row": row})
        alerts.note(conn, [trouble], now_ms=now_ms)
        tellings.begin(conn, alerts.standing(conn)[-1].id, "ops", said_by="ops", response=row, now_ms=now_ms)
    yield row
    with transaction(conn):
        conn.execute(fate, {"status": "deleted", "row": row})
    conn.close()
    ask(at_work, "DELETE", "/api/alerts/routes/ops")


def test_the_overview_says_who_was_told_of_an_alert_and_that_the_message_did_not_arrive(
    browse: Callable[..., None], notice: int, axe: str
) -> None:
    async def scenario(tab: Tab) -> None:
        panel = "[aria-label=Alerts]"
        for words in (
            "Sent to ops (On call).",
            "The disk is filling · since ",
            f"The alert, response {notice}, could not be sent: chat not found.",
        ):
            assert words in await text(tab, panel)
        assert await text(tab, f"{panel} .act") == "Send again"
        assert (await text(tab, f"{panel} .item p")).startswith("Notified ops at ")
        await tab.run(axe)
        assert await tab.run(FINDINGS) == []

    browse(scenario)


def test_the_time_to_take_an_act_back_stands_still_as_long_as_the_bar_is_pointed_at_or_has_the_focus(
    browse: Callable[..., None], at_work: Emulator
) -> None:
    long_timers = """window.left = new Map(); {
        const [set, clear] = [window.setTimeout, window.clearTimeout], keep = () => left.set(-1 - left.size, 1).size;
        window.setTimeout = (run, ms) => ms > 4000 ? -keep() : set(run, ms);
        window.clearTimeout = (id) => { left.set(id, 0); clear(id); };
    } 0"""
    running = "[...left.values()].reduce((sum, one) => sum + one, 0)"

    async def point(tab: Tab, x: int, y: int) -> None:
        await tab.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    async def scenario(tab: Tab) -> None:
        await tab.run(long_timers)
        await tab.click("#view .act")
        await tab.until(f"{running} === 1")
        bar = "document.querySelector('.undo').getBoundingClientRect()"
        x, y = await tab.run(f"[Math.round({bar}.x) + 4, Math.round({bar}.y) + 4]")
        await point(tab, x, y)
        await tab.until(f"{running} === 0")
        await tab.run("document.querySelector('.undo button').focus()")
        await tab.run("document.querySelector('.undo button').blur()")
        assert await tab.run(running) == 0
        await point(tab, 5, 5)
        await tab.until(f"{running} === 1")
        await tab.run("document.querySelector('.undo button').click()")  # Undo
        assert await tab.run(running) == 0

    browse(scenario, "agents")
