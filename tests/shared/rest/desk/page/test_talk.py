"""Conversations on the page, in a real browser."""

import json
import time
from collections.abc import Callable

import pytest

from shared.db.access import dropped
from shared.db.engine.connection import open_connection, transaction
from tests.emulator.harness import Emulator
from tests.emulator.platforms.page.browser import Tab
from tests.shared.rest.desk.page.system import ANA, ask, text

pytestmark = pytest.mark.browser


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


def test_each_older_line_of_a_conversation_is_shown_once(browse: Callable[..., None], at_work: Emulator) -> None:
    told = {"channel": "telegram", "platformId": "-100778", "isGroup": True, "name": "Loud"}
    chat_id = ask(at_work, "POST", "/api/chats", told)["chat"]["id"]
    conn = open_connection(at_work.project / ".emulator" / "postroom.db")
    with transaction(conn):
        for _ in range(150):
            place = {"channel": "telegram", "platform_id": "-100778", "sender_id": "5"}
            dropped.record(conn, reason="rate_limited", now_ms=round(time.time() * 1000), **place)
    conn.close()
    lines = "document.querySelectorAll('.log .line').length"

    async def scenario(tab: Tab) -> None:
        for shown in (60, 120, 150):
            await tab.until(f"{lines} >= {shown}")
            assert await tab.run(lines) == shown
            if shown < 150:
                await tab.click(".log .more")
        assert await tab.run("document.querySelector('.log .more')") is None
        assert await tab.run("document.querySelector('.live').innerText") == "paused: more is shown"

    browse(scenario, f"c/{chat_id}")
