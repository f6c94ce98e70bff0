"""The chat page while the emulator is away, with very much to show, and on a phone, in a real browser."""

import asyncio

import pytest
from aiohttp import web

from tests.emulator.platforms.conftest import bound
from tests.emulator.platforms.page.conversation import ANA, BODIES, GROUP, ROWS, act, say

pytestmark = pytest.mark.browser


def test_the_page_goes_on_after_the_emulator_was_away(browse):
    async def scenario(world, tab):
        await say(tab, "before")
        await tab.run("window.stayed = true")
        await world.platforms.stop()
        await tab.until("document.body.dataset.live === 'no'")
        tab.problems.clear()
        await world.start()
        await world.say("after")
        await tab.until(f"document.body.dataset.live === 'yes' && {BODIES}.join() === 'before,after'")
        assert await tab.run("window.stayed")
        tab.problems.clear()  # refused connections

    browse(scenario)


def test_the_page_goes_on_after_an_answer_that_ends_its_stream(browse):
    """As of the gateway, until the fake platforms are up: a browser makes no other attempt then."""

    async def scenario(world, tab):
        asked = asyncio.Event()

        async def refuse(request):
            asked.set()
            return web.Response(status=503)

        await say(tab, "before")
        await world.platforms.stop()
        app = web.Application()
        app.router.add_get("/_emulator/chat/events", refuse)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.SockSite(runner, bound(world._port)).start()
        await asked.wait()
        await runner.cleanup()
        await world.start()
        await world.say("after")
        await tab.until(f"document.body.dataset.live === 'yes' && {BODIES}.join() === 'before,after'")
        tab.problems.clear()  # the refusal

    browse(scenario)


def test_a_conversation_that_cannot_be_read_does_not_show_another(browse):
    async def scenario(world, tab):
        await say(tab, "of Ana alone")
        await tab.run("""{
            const real = window.fetch, away = () => Promise.reject(new Error("it is away"));
            window.fetch = (path, options) => path.includes("/chats/") ? away() : real(path, options);
        } 0""")
        await tab.run(f"open('{GROUP}')")
        await tab.until("document.querySelector('.error').innerText.includes('it is away. Choose it again.')")
        assert await tab.run(f"{ROWS}.length") == 0
        assert await tab.run("document.querySelector('.head h2').innerText") != await tab.run(
            "botOf(chatOf(chat)).name"
        )

    browse(scenario)


def test_hours_of_messages_do_not_stay_in_memory(browse):
    def flood(world, numbers):
        chat = world.platforms._store.chat("telegram", ANA)
        about = {"platform": "telegram", "chat": ANA}
        sent = {"kind": "message", "state": "pending", "attempts": 0, "status": None, "error": None, "took_ms": None}
        with world.platforms._store.conn:
            for number in numbers:
                said = {"author": ANA, "is_bot": False, "text": f"number {number}", "detail": {}, "now_ms": number}
                world.platforms._store.add_message(chat, str(number), **said)
        for number in numbers:
            of_message = {"message": str(number), "update_id": number, "created_ms": number}
            world.platforms._bus.publish("message", {**about, "id": str(number)})
            world.platforms._bus.publish("delivery", {**about, **sent, **of_message})

    async def scenario(world, tab):
        for first in range(1, 4401, 400):
            flood(world, range(first, first + 400))
            await tab.until(f"messages.has('{first + 399}') && deliveries.has('{first + 399}')")
        await tab.until("steps.size <= KEEP")
        sizes = await tab.run("[messages, deliveries, drawn, whys].map((one) => one.size)")
        assert all(size <= 2001 for size in sizes), sizes

    browse(scenario)


def test_what_is_written_while_a_message_is_refused_stays(browse):
    late = """{
        const real = window.fetch, refused = new Response('{"error": "it is late"}', {status: 409});
        window.fetch = (path, options) => path.endsWith("/say")
            ? new Promise((answer) => { window.refuse = () => answer(refused); }) : real(path, options);
    } 0"""

    async def scenario(world, tab):
        await tab.run(late)
        await tab.click("#text")
        await tab.type("first")
        await tab.press("Enter")
        await tab.until("window.refuse !== undefined")
        await tab.type("second")
        await tab.run("refuse()")
        await tab.until("document.querySelector('.error[role=alert]').innerText === 'it is late'")
        assert await tab.run("document.querySelector('#text').value") == "first\nsecond"
        assert await tab.run("document.querySelector('.unwell').hidden"), "that is for Postroom's own health"
        tab.problems.clear()

    browse(scenario)


def test_what_was_written_before_an_edit_comes_back_after_it(browse):
    field = "document.querySelector('#text').value"

    async def scenario(world, tab):
        await say(tab, "first")
        await tab.click("#text")
        await tab.type("half a thought")
        await act(tab, "Edit")
        assert await tab.run(field) == "first"
        await act(tab, "Reply")
        assert await tab.run(field) == "half a thought"
        await act(tab, "Edit")
        await tab.press("Escape")
        assert await tab.run(field) == "half a thought"
        await act(tab, "Edit")
        await tab.type(", and better")
        await tab.press("Enter")
        await tab.until(f"{BODIES}.at(-1) === 'first, and better'")
        assert await tab.run(field) == "half a thought"

    browse(scenario)


def test_a_chat_that_a_new_emulator_does_not_have_gives_way_to_one_that_it_has(browse):
    async def scenario(world, tab):
        made = await world.do("/chat/telegram/chats", {"title": "Gone", "members": [ANA]})
        await tab.until(f"chatOf('{made['chat']}')")
        await tab.run(f"open('{made['chat']}')")
        await tab.until("document.querySelector('.head h2').innerText === 'Gone'")
        await world.platforms.stop()
        await tab.until("document.body.dataset.live === 'no'")
        await world.start(state=world.config.state.with_name("anew"))
        await tab.until("document.querySelector('.head h2').innerText !== 'Gone'")
        tab.problems.clear()  # refused connections
        await say(tab, "is anybody here?")

    browse(scenario)


def test_thousands_of_messages_stay_quick(browse):
    async def before(world):
        chat = world.platforms._store.chat("telegram", ANA)
        with world.platforms._store.conn:
            for number in range(1, 5001):
                said = {"author": ANA, "is_bot": False, "text": f"number {number}", "detail": {}, "now_ms": number}
                world.platforms._store.add_message(chat, str(number), **said)

    async def scenario(world, tab):
        assert await tab.until(f"{ROWS}.length") == 150
        assert await tab.run(f"{BODIES}.at(-1)") == "number 5000"
        await tab.run("document.querySelector('.log').scrollTop = 0")
        assert await tab.until(f"{ROWS}.length === 300 && {BODIES}[0]") == "number 4701"
        await tab.run("document.querySelector('.log').scrollTop = 1e9")
        await tab.until("document.querySelector('.log').dataset.low === 'yes'")
        chat = world.platforms._store.chat("telegram", ANA)
        for number in range(5001, 5401):  # at once, as in a flood
            said = {"author": ANA, "is_bot": False, "text": f"number {number}", "detail": {}, "now_ms": number}
            world.platforms._store.add_message(chat, str(number), **said)
            world.platforms._bus.publish("message", {"platform": "telegram", "chat": ANA, "id": str(number)})
        await tab.until(f"{BODIES}.at(-1) === 'number 5400' && {ROWS}.length === 700")
        await tab.until("isLow(document.querySelector('.log'))")
        drawing = await tab.run(
            "(() => { const from = performance.now(); drawLog(); return performance.now() - from; })()"
        )
        assert drawing < 250

    browse(scenario, before=before)


def test_a_phone_shows_one_thing_at_a_time(browse):
    async def scenario(world, tab):
        shown = "['.side', 'main', 'section.happened'].filter((name) => document.querySelector(name).offsetWidth)"
        assert await tab.run(shown) == ["main"]
        await say(tab, "a very long word: " + "x" * 300)
        await world.bot("sendMessage", chat_id=int(ANA), text="<pre>" + "y" * 300 + "</pre>", parse_mode="HTML")
        await world.bot("sendMessage", chat_id=int(ANA), text="<b>" + "z" * 300, parse_mode="HTML")
        await tab.until("document.querySelector('.refused')")
        for view, button in (
            ("main", None),
            (".side", "#back"),
            ("main", "li button"),
            ("section.happened", "#show-events"),
        ):
            if button:
                await tab.click(button)
            assert await tab.until(f"{shown}.join() === '{view}' && {shown}") == [view]
            assert await tab.run("document.documentElement.scrollWidth <= innerWidth")
            cut = f"{ROWS}.filter((row) => row.querySelector('.bubble').offsetWidth > row.clientWidth).length"
            assert await tab.run(cut) == 0
            small = """[...document.querySelectorAll('button, select, input, textarea, a')].filter((node) => {
                const box = node.getBoundingClientRect();
                return box.width && box.height < 24;
            }).map((node) => node.outerHTML.slice(0, 90))"""
            assert [one for one in await tab.run(small) if "checkbox" not in one] == []

    browse(scenario, width=390, height=780)
