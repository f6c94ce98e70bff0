"""Slash commands, forms and threads of Discord on the chat page, in a real browser."""

import pytest
from aiohttp import web

from tests.emulator.platforms.page.conversation import BODIES, CHANNEL, DISCORD_ANA, LAST, ROWS, act

pytestmark = pytest.mark.browser


ON_DISCORD = f"?platform=discord&chat={CHANNEL}&person={DISCORD_ANA}"
COMMANDS = [
    {"name": "ask", "type": 1, "description": "Ask", "options": [
        {"name": "prompt", "type": 3, "description": "what", "required": True},
        {"name": "agent", "type": 3, "description": "who", "autocomplete": True}]},
    {"name": "new", "type": 1, "description": "Begin again"},
    {"name": "Ask about it", "type": 3},
]  # fmt: skip
FORM = {"custom_id": "report", "title": "Report", "components": [
    {"type": 18, "label": "What broke", "component": {"type": 4, "custom_id": "what", "style": 1}}]}  # fmt: skip


async def register_commands(world):
    await world.as_bot("PUT", f"/applications/{world.env['DISCORD_APPLICATION_ID']}/commands", COMMANDS)


async def arrived(world, kind, count=1):
    """The last interaction of this *kind*, once there are *count* of them."""
    seen = 0
    while True:
        found = [got.body for got in world.endpoint.got if got.body["type"] == kind]
        if len(found) >= count:
            return found[-1]
        seen = max(seen, len(world.endpoint.got)) + 1
        await world.endpoint.wait(seen)


def test_a_command_with_suggestions_a_menu_a_select_and_a_form(browse):
    def answer(got):
        if got.body["type"] == 4:
            return web.json_response({"type": 8, "data": {"choices": [{"name": "The cook", "value": "cook"}]}})
        return web.json_response({"type": 9, "data": FORM} if got.body["type"] == 3 else {"type": 5})

    async def scenario(world, tab):
        world.endpoint.discord = answer
        await tab.click(".options input")
        await tab.until("document.querySelector('datalist option')?.value === 'cook'")
        await tab.type("cook")
        await tab.click("#text")
        await tab.type("soup?")
        await tab.press("Enter")
        await tab.until(f"{BODIES}.some((text) => text?.includes('soup?'))")
        asked = await arrived(world, 2)
        assert [option["value"] for option in asked["data"]["options"]] == ["soup?", "cook"]
        options = [{"label": word, "value": word} for word in ("red", "blue")]
        row = {"type": 1, "components": [{"type": 3, "custom_id": "colour", "options": options}]}
        await world.as_bot("POST", f"/channels/{CHANNEL}/messages", {"content": "Which?", "components": [row]})
        await tab.until("document.querySelector('.keys select')")
        choose = (
            "const s = document.querySelector('.keys select'); s.value = 'blue'; s.dispatchEvent(new Event('change'))"
        )
        await tab.run(f"{{ {choose} }}")
        await tab.until("document.querySelector('dialog.form').open")
        assert (await arrived(world, 3))["data"]["values"] == ["blue"]
        await tab.type("the oven")
        await tab.press("Enter")
        await tab.until("!document.querySelector('dialog.form').open && document.activeElement.id === 'text'")
        sent = await arrived(world, 5)
        assert (sent["type"], sent["data"]["components"][0]["component"]["value"]) == (5, "the oven")
        await act(tab, "Apps: Ask about it", row=f"{ROWS}.find((row) => row.textContent.includes('Which?'))")
        await tab.until(f"{BODIES}.some((text) => text?.startsWith('used Ask about it'))")
        assert (await arrived(world, 2, count=2))["data"]["type"] == 3

    browse(scenario, before=register_commands, query=ON_DISCORD)


def test_a_command_is_chosen_by_typing_a_slash(browse):
    async def scenario(world, tab):
        await tab.type("/n")
        await tab.until("document.querySelector('.commands button')?.innerText.startsWith('/new')")
        await tab.press("Enter")
        await tab.until("document.querySelector('.slash').innerText === '/new'")
        await tab.press("Enter")
        assert (await world.endpoint.wait(1))[0].body["data"]["name"] == "new"

    browse(scenario, before=register_commands, query=ON_DISCORD)


def test_a_thread_has_a_conversation_of_its_own(browse):
    async def before(world):
        world.endpoint.discord = lambda got: web.json_response({"type": 4, "data": {"content": "Which?"}})

    async def scenario(world, tab):
        await tab.type("soup?")
        await tab.press("Enter")
        await tab.until(f"{BODIES}.at(-1) === 'Which?'")
        await act(tab, "Start a thread")
        await tab.type("Soup")
        await tab.press("Enter")
        await tab.until(
            "document.querySelector('.head h2').innerText === 'Soup' && document.activeElement.id === 'text'"
        )
        await tab.type("the red one")
        await tab.press("Enter")
        await tab.until(f"{BODIES}.at(-1) === 'Which?' && {ROWS}.length === 2")
        assert world.endpoint.got[-1].body["channel"]["name"] == "Soup"
        await tab.click(".topics button")
        await tab.until("document.querySelector('.head h2').innerText === '# general'")
        await tab.until(f"{BODIES}.join() === '/ask soup?,Which?'")

    browse(scenario, before=before, query=ON_DISCORD)


def test_an_ephemeral_answer_is_shown_to_its_person_only(browse):
    async def before(world):
        data = {"content": "Only for Ana.", "flags": 64}
        world.endpoint.discord = lambda got: web.json_response({"type": 4, "data": data})

    async def scenario(world, tab):
        await tab.type("secret?")
        await tab.press("Enter")
        await tab.until(f"{BODIES}.at(-1) === 'Only for Ana.' && {LAST}.innerText.includes('only you see this')")
        await tab.run("[...document.querySelectorAll('.person')].at(-1).click()")
        await tab.until(f"{BODIES}.join() === '/ask secret?'")

    browse(scenario, before=before, query=ON_DISCORD)
