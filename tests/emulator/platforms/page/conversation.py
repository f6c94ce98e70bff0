"""What the tests of the chat page do and look at."""

import json

ANA, GROUP = "5000000001", "-4001002003"
DISCORD_ANA, CHANNEL = "80000000000000001", "1290000000000000200"
ROWS = "[...document.querySelectorAll('.log article')]"
LAST = f"{ROWS}.at(-1)"
BODIES = f"{ROWS}.map((row) => row.querySelector('.body')?.textContent)"


async def say(tab, text):
    await tab.click("#text")
    await tab.type(text)
    await tab.press("Enter")
    await tab.until(f"{LAST}?.querySelector('.body')?.innerText === {json.dumps(text)}")


async def act(tab, action, row=LAST):
    """Choose *action* in the menu of a message, by the keyboard."""
    await tab.run(f"{row}.focus()")
    await tab.press("Enter")
    items = "[...document.querySelectorAll('.menu button')]"
    at = await tab.until(f"{items}.findIndex((item) => item.innerText === {json.dumps(action)}) + 1")
    for _ in range(at - 1):
        await tab.press("ArrowDown")
    await tab.press("Enter")
