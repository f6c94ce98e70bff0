"""What a bot sends besides texts and files, and what happened, on the chat page in a real browser."""

import json
from importlib.resources import files

import pytest

from tests.emulator.platforms.page.conversation import ANA, GROUP, LAST, say

pytestmark = pytest.mark.browser


def test_polls_places_pins_and_forwards_of_a_bot_that_is_administrator(browse):
    async def before(world):
        await world.say("lunch?", chat=GROUP)
        asked = {"question": "Lunch?", "options": [{"text": "Pizza"}, {"text": "Noodles"}], "is_anonymous": False}
        await world.bot("sendPoll", chat_id=int(GROUP), **asked)
        await world.bot(
            "sendVenue", chat_id=int(GROUP), latitude=41.9, longitude=12.5, title="Da Enzo", address="Via 1"
        )
        await world.bot("forwardMessage", chat_id=int(GROUP), from_chat_id=int(GROUP), message_id=1)

    async def scenario(world, tab):
        await tab.click(".poll button:nth-of-type(2)")
        await tab.until("document.querySelector('.poll [aria-pressed=true]')?.innerText.includes('100 %')")
        assert await tab.run("document.querySelector('.poll').innerText.endsWith('1 vote')")
        assert await tab.run("document.querySelector('.card a').href") == "geo:41.9,12.5"
        assert await tab.run(f"{LAST}.querySelector('.forwarded').innerText") == "Forwarded from Ana"
        assert (await world.bot("pinChatMessage", chat_id=int(GROUP), message_id=1))["error_code"] == 400
        await tab.click("#admin")
        await tab.until("document.querySelector('#admin').getAttribute('aria-pressed') === 'true'")
        assert (await world.bot("pinChatMessage", chat_id=int(GROUP), message_id=1))["ok"]
        await tab.until("document.querySelector('.pinned button')?.innerText.includes('lunch?')")
        await tab.click(".pinned button")
        assert await tab.run("document.activeElement.dataset.id") == "1"

    browse(scenario, before=before, query=f"?chat={GROUP}")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_in_what_a_bot_sends_nor_in_the_events(browse, width, theme):
    axe = (files("axe_core_python") / "axe.min.js").read_text("utf-8") + "; 0"
    found = """axe.run(document, {resultTypes: ["violations"]}).then((all) => all.violations.map(
      (rule) => `${rule.id}: ${rule.nodes.map((node) => node.html.slice(0, 200))}`))"""

    async def why(account, chat, message):
        return {"state": "dropped", "reason": "The bot was not mentioned.", "until": None}

    async def before(world):
        await world.say("lunch?", chat=GROUP)
        asked = {"question": "Lunch?", "options": [{"text": "Pizza"}, {"text": "Noodles"}]}
        await world.bot("sendPoll", chat_id=int(GROUP), **asked)
        await world.bot("sendContact", chat_id=int(GROUP), phone_number="+491", first_name="Cara")
        await world.bot("forwardMessage", chat_id=int(GROUP), from_chat_id=int(GROUP), message_id=1)
        await world.do("/chat/telegram/admin", {"chat": GROUP})
        await world.bot("pinChatMessage", chat_id=int(GROUP), message_id=1)
        await world.bot("sendInvoice", chat_id=int(GROUP))

    async def scenario(world, tab):
        await tab.run(axe)
        await tab.until("document.querySelector('.unanswered') && document.querySelector('.pinned button')")
        await tab.run("document.querySelectorAll('.steps details, .refused').forEach((one) => { one.open = true; })")
        await tab.until("document.querySelectorAll('.steps details > .part').length >= 4")
        for view in ("chat", "events", "chats"):
            await tab.run(f"view('{view}')")
            assert await tab.run(found) == [], view
            assert await tab.run("document.documentElement.scrollWidth <= innerWidth"), view

    browse(scenario, why=why, before=before, query=f"?chat={GROUP}&theme={theme}", width=width)


def test_what_happened_shows_what_came_in_what_went_out_and_the_answers(browse):
    async def scenario(world, tab):
        await say(tab, "hello")
        await world.bot("sendMessage", chat_id=int(ANA), text="<b>", parse_mode="HTML")
        await tab.until("document.querySelectorAll('.steps details').length === 2")
        opened = "[...document.querySelectorAll('.steps details')]"
        for at, words in ((0, '"text": "hello"'), (1, '"parse_mode": "HTML"')):
            await tab.run(f"{opened}[{at}].querySelector('summary').click()")
            await tab.until(f"{opened}[{at}].querySelector('.part pre')?.innerText.includes({json.dumps(words)})")
        titles = await tab.run("[...document.querySelectorAll('.steps .part h3')].map((one) => one.innerText)")
        assert titles == ["Sent to the bot", "The bot answered 200", "The bot sent", "Telegram answered 400"]

    browse(scenario)


def test_why_a_group_message_was_not_answered_stands_under_it(browse):
    asked = []

    async def why(account, chat, message):
        asked.append((account, chat, message))
        return {"state": "dropped", "reason": "The bot was not mentioned.", "until": None}

    async def scenario(world, tab):
        await tab.run(f"open({GROUP!r})")
        await say(tab, "soup?")
        await tab.until(
            f"{LAST}.querySelector('.unanswered')?.innerText === 'Not answered: The bot was not mentioned.'"
        )
        assert asked == [("telegram", GROUP, "1")]

    browse(scenario, why=why)
