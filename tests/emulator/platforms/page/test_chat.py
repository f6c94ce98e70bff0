"""What a person does on the chat page, and what the page then shows, in a real browser."""

import pytest

pytestmark = pytest.mark.browser
ANA, BEN, GROUP = "5000000001", "5000000002", "-4001002003"
LAST = "[...document.querySelectorAll('.log article')].at(-1)"


async def say(tab, text):
    await tab.click("#text")
    await tab.type(text)
    await tab.press("Enter")
    await tab.until(f"{LAST}?.querySelector('.body')?.innerText === {text!r}")


async def act(tab, action):
    """Choose *action* in the menu of the last message."""
    await tab.run(f"{LAST}.focus()")
    await tab.press("Enter")
    await tab.until("!document.querySelector('.menu').hidden")
    await tab.run(f"[...document.querySelectorAll('.menu button')].find((b) => b.innerText === '{action}').click()")


def test_a_person_writes_edits_reacts_and_deletes(browse):
    async def scenario(world, tab):
        await say(tab, "hello")
        (got,) = await world.endpoint.wait(1)
        assert got.body["message"]["text"] == "hello"
        await act(tab, "Edit")
        await tab.type(" again")
        await tab.press("Enter")
        await tab.until(
            f"{LAST}.innerText.includes('edited') && {LAST}.querySelector('.body').innerText === 'hello again'"
        )
        edited = (await world.endpoint.wait(2))[1].body["edited_message"]
        assert (edited["message_id"], edited["text"]) == (1, "hello again")
        await act(tab, "👍")
        await tab.until(f"{LAST}.querySelector('.reactions button[aria-pressed=true]')")
        chosen = (await world.endpoint.wait(3))[2].body["message_reaction"]
        assert chosen["new_reaction"] == [{"type": "emoji", "emoji": "👍"}]
        await act(tab, "Delete")
        await tab.until("!document.querySelector('.log article')")

    browse(scenario)
