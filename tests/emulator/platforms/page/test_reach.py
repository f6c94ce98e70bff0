"""Everybody can use the chat page: contrast, names, the keyboard, and what is not well, in a real browser."""

import json
from pathlib import Path

import pytest

from tests.emulator.platforms.page.conversation import ANA, ROWS

pytestmark = pytest.mark.browser


CONTRAST = Path(__file__).with_name("contrast.js").read_text().partition("\n")[2]


async def rich(world):
    """A conversation with a bit of everything."""
    await world.say("hello @postroom_bot")
    keys = {
        "inline_keyboard": [[{"text": "Yes", "callback_data": "7.0"}, {"text": "Site", "url": "https://example.com"}]]
    }
    text = "<b>Bold</b> <code>code</code> <a href='https://example.com'>link</a><blockquote>quote</blockquote><pre>pre</pre>"
    await world.bot("sendMessage", chat_id=int(ANA), text=text, parse_mode="HTML", reply_markup=keys)
    await world.bot("sendMessage", chat_id=int(ANA), text="<b>", parse_mode="HTML")
    await world.do("/chat/telegram/react", {"chat": ANA, "message": "1", "person": ANA, "emoji": "👍"})
    await world.say("reply", reply_to="2")
    await world.ask("on Discord")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("platform", ["telegram", "discord"])
def test_every_text_has_enough_contrast_and_every_control_a_name(browse, theme, platform):
    async def scenario(world, tab):
        await tab.until(f"{ROWS}.length")
        assert await tab.run(CONTRAST) == []
        await tab.run("document.querySelector('.more').click()")
        assert await tab.run(CONTRAST) == []
        await tab.press("Escape")
        await tab.click("#add-chat")
        assert await tab.run(CONTRAST) == []
        nodes = (await tab.send("Accessibility.getFullAXTree"))["nodes"]
        roles = {"button", "textbox", "combobox", "checkbox", "radio", "link", "tab", "menuitem", "image", "dialog"}
        named = [node for node in nodes if node.get("role", {}).get("value") in roles and not node.get("ignored")]
        assert [node for node in named if not node.get("name", {}).get("value")] == []
        assert len(named) > 4

    browse(scenario, before=rich, query=f"?platform={platform}&theme={theme}")


def test_a_person_reaches_everything_by_the_keyboard(browse):
    async def scenario(world, tab):
        await tab.run("document.activeElement.blur()")
        reached = []
        for _ in range(40):
            await tab.press("Tab")
            name = await tab.run(
                "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"
            )
            visible = await tab.run("getComputedStyle(document.activeElement).outlineStyle") != "none"
            visible = visible or name in ("text", "files", "BODY")  # the field around them has the mark
            assert visible, name
            reached.append(name)
        assert {"theme", "tab-telegram", "person", "add-person", "add-chat", "log", "files", "text", "send"} <= set(
            reached
        )

    browse(scenario, before=rich)


def test_what_postroom_says_of_a_channel_stands_above_the_conversation(browse):
    said = ["needs you: telegram receives nothing: none <b>. To fix it: emulator channel telegram connect"]
    shown = "document.querySelector('.unwell')"

    async def unwell():
        return said

    async def scenario(world, tab):
        await tab.until(f"{shown}.innerText === {json.dumps(said[0])}")
        assert await tab.run(f"!{shown}.hidden && {shown}.getBoundingClientRect().height > 10")
        said.clear()
        await tab.run("lookUnwell()")
        await tab.until(f"{shown}.hidden")

    browse(scenario, unwell=unwell)


def test_nothing_takes_the_focus_from_where_a_person_has_gone_meanwhile(browse):
    """A form that was closed, and a text that was sent, leave it alone; their answers come later."""
    at = "document.activeElement.className"
    go_on = "document.querySelector('.log').focus()"

    async def scenario(world, tab):
        await tab.click("#add-person")
        form = "document.querySelector('dialog.form')"
        ended = f"new Promise((done) => {form}.addEventListener('close', () => setTimeout(done)))"
        cancel = f"{form}.querySelector('.buttons button').click()"
        await tab.run(f"(() => {{ const ended = {ended}; {cancel}; {go_on}; return ended; }})()")
        assert await tab.run(at) == "log"
        await tab.run(
            f"document.querySelector('#text').value = 'hello'; document.querySelector('.send').click(); {go_on}"
        )
        answered = "performance.getEntriesByType('resource').some((one) => one.name.endsWith('/say'))"
        await tab.until(answered)
        await tab.run("new Promise((done) => setTimeout(done, 20))")
        assert await tab.run(at) == "log"

    browse(scenario)
