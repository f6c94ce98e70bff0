"""What a person does on the chat page, and what the page then shows, in a real browser."""

import json
import zlib
from pathlib import Path
from struct import pack

import pytest
from aiohttp import web

pytestmark = pytest.mark.browser
ANA, BEN, GROUP = "5000000001", "5000000002", "-4001002003"
DISCORD_ANA, DISCORD_BEN, CHANNEL = "80000000000000001", "80000000000000002", "1290000000000000200"
ROWS = "[...document.querySelectorAll('.log article')]"
LAST = f"{ROWS}.at(-1)"
BODIES = f"{ROWS}.map((row) => row.querySelector('.body')?.textContent)"


def png():
    """A picture of 4 by 4 pixels."""
    rows = (b"\0" + b"\x20\x90\xe0" * 4) * 4
    parts = ((b"IHDR", pack(">IIBBBBB", 4, 4, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    chunks = [pack(">I", len(data)) + name + data + pack(">I", zlib.crc32(name + data)) for name, data in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


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


def test_a_person_writes_edits_reacts_and_deletes_by_the_keyboard(browse):
    async def scenario(world, tab):
        await say(tab, "hello")
        (got,) = await world.endpoint.wait(1)
        assert got.body["message"]["text"] == "hello"
        await tab.press("ArrowUp")  # the last own message
        await tab.until("document.querySelector('.target').innerText.startsWith('Edit')")
        await tab.type(" again")
        await tab.press("Enter")
        await tab.until(f"{LAST}.querySelector('.body').innerText === 'hello again'")
        assert await tab.run(f"{LAST}.querySelector('.meta').innerText.includes('edited')")
        edited = (await world.endpoint.wait(2))[1].body["edited_message"]
        assert (edited["message_id"], edited["text"]) == (1, "hello again")
        await act(tab, "👍")
        await tab.until(f"{LAST}.querySelector('.reactions button[aria-pressed=true]')")
        chosen = (await world.endpoint.wait(3))[2].body["message_reaction"]
        assert chosen["new_reaction"] == [{"type": "emoji", "emoji": "👍"}]
        await tab.click(".reactions button")
        await tab.until(f"!{LAST}.querySelector('.reactions')")
        await act(tab, "Delete")
        await tab.until(f"!{ROWS}.length")
        assert await tab.run("document.activeElement.id") == "text"

    browse(scenario)


def test_a_reply_names_its_message_and_a_press_reaches_the_bot(browse):
    async def scenario(world, tab):
        await say(tab, "may I?")
        keys = {"inline_keyboard": [[{"text": "Yes", "callback_data": "7.0"}]]}
        await world.bot("sendMessage", chat_id=int(ANA), text="Shall I?", reply_markup=keys)
        await tab.click(".keys button")
        assert (await world.endpoint.wait(2))[1].body["callback_query"]["data"] == "7.0"
        await act(tab, "Reply")
        await tab.type("please")
        await tab.press("Enter")
        replied = (await world.endpoint.wait(3))[2].body["message"]["reply_to_message"]
        assert replied["text"] == "Shall I?"
        await tab.until(f"{LAST}.querySelector('.quote')?.innerText.includes('Shall I?')")

    browse(scenario)


def test_files_become_an_album_a_voice_message_and_a_download(browse, tmp_path):
    for name, data in (("a.png", png()), ("b.png", png()), ("c.ogg", b"OggS"), ("evil.html", b"<script>1</script>")):
        (tmp_path / name).write_bytes(data)

    async def scenario(world, tab):
        await say(tab, "hello")
        await tab.choose_files("#files", tmp_path / "a.png", tmp_path / "b.png")
        await tab.until("document.querySelectorAll('.pending li').length === 2")
        await tab.type("look")
        await tab.press("Enter")
        got = [update.body["message"] for update in await world.endpoint.wait(3)][1:]
        assert got[0]["media_group_id"] == got[1]["media_group_id"]
        await tab.until(f"{LAST}.querySelectorAll('.picture img').length === 2")
        assert await tab.until(f"{LAST}.querySelector('.picture img').naturalWidth") == 4
        assert await tab.run(f"{ROWS}.length") == 2
        await tab.click(".picture")
        await tab.until("document.querySelector('dialog.look').open")
        await tab.press("Escape")
        await tab.choose_files("#files", tmp_path / "c.ogg", tmp_path / "evil.html")
        assert await tab.until("document.querySelector('.pending select')?.value") == "voice"
        await tab.press("Enter")
        got = [update.body["message"] for update in await world.endpoint.wait(5)][3:]
        assert ("voice" in got[0], got[1]["document"]["file_name"]) == (True, "evil.html")
        await tab.until(f"{LAST}.querySelector('a.file[download]')?.innerText.includes('evil.html')")
        assert await tab.run(f"{ROWS}.at(-2).querySelector('audio').controls")

    browse(scenario)


def test_no_markup_of_a_message_is_ever_interpreted(browse):
    evil = "<img src=x onerror=\"document.title='caught'\"><script>document.title='caught'</script> <b>no</b>"

    async def before(world):
        await world.say(evil)
        await world.do("/chat/telegram/people", {"name": evil[:60]})
        await world.do("/chat/telegram/chats", {"title": evil[:90], "members": [ANA]})
        url = {"type": "text_link", "offset": 0, "length": 4, "url": "javascript:document.title='caught'"}
        await world.bot("sendMessage", chat_id=int(ANA), text=evil, entities=[url])
        await world.bot("sendMessage", chat_id=int(ANA), text="", parse_mode="<b>x</b>")

    async def scenario(world, tab):
        assert await tab.until(f"{BODIES}.length === 2 && {BODIES}") == [evil, evil]
        assert await tab.run("document.querySelectorAll('.log img, .log b:not(.refused b), .log .body a').length") == 0
        assert await tab.run("document.title") == "Postroom · chat"
        # Even markup that got in would not run.
        await tab.run("document.body.insertAdjacentHTML('beforeend', '<i id=in onclick=\"document.title=1\">in</i>')")
        await tab.run("document.querySelector('#in').click()")
        assert [problem for problem in tab.problems if "Content Security Policy" not in problem] == []
        assert tab.problems
        tab.problems.clear()
        assert await tab.run("document.title") == "Postroom · chat"

    browse(scenario, before=before)


def test_a_refused_call_stands_in_its_place_with_the_reason(browse):
    async def before(world):
        await world.say("hello")

    async def scenario(world, tab):
        world.clock.advance(5)
        await world.bot("sendMessage", chat_id=int(ANA), text="<b>open", parse_mode="HTML")
        world.clock.advance(5)
        await world.bot("sendMessage", chat_id=int(ANA), text="fine")
        said = await tab.until("document.querySelector('.refused')?.innerText")
        assert "Telegram refused sendMessage" in said
        assert "can't parse entities" in said
        order = "[...document.querySelector('.rows').children].map((row) => row.className.split(' ')[0])"
        await tab.until(f"{order}.join() === 'day,row,refused,row'")
        await tab.click("#only-refused")
        assert await tab.run("document.querySelectorAll('.steps details').length") == 1
        await world.do("/control/telegram/faults", {"kind": "status", "status": 429, "retry_after": 3})
        await world.bot("sendMessage", chat_id=int(ANA), text="too fast")
        await tab.until("[...document.querySelectorAll('.refused')].at(-1).innerText.includes('asked to wait 3 s')")

    browse(scenario, before=before)


def test_several_people_in_groups_and_topics(browse):
    async def scenario(world, tab):
        await tab.click("#add-person")
        await tab.type("Zoe")
        await tab.press("Enter")
        await tab.until("document.querySelector('.person[aria-checked=true]')?.innerText.endsWith('Zoe')")
        await tab.click("#add-chat")
        await tab.type("Trip")
        await tab.run(
            "[...document.querySelectorAll('dialog input[type=checkbox]')].forEach((box) => box.checked = true)"
        )
        await tab.click("dialog .primary")
        await tab.until("document.querySelector('.head h2').innerText === 'Trip'")
        await tab.click(".topics .add")
        await tab.type("Food")
        await tab.press("Enter")
        await tab.until("document.querySelector('.topics [aria-pressed=true]')?.innerText === 'Food'")
        await say(tab, "soup?")
        said = (await world.endpoint.wait(3))[2].body["message"]
        assert (said["from"]["first_name"], said["is_topic_message"]) == ("Zoe", True)
        await tab.run("document.querySelector('.person').click()")
        await tab.until("document.querySelector('#text').placeholder === 'Message as Ana'")
        await tab.until(f"{LAST}.querySelector('.who').innerText === 'Zoe'")
        await say(tab, "bread")
        assert (await world.endpoint.wait(4))[3].body["message"]["from"]["first_name"] == "Ana"
        await tab.run("[...document.querySelectorAll('.topics button')].find((b) => b.innerText === 'General').click()")
        await tab.until(f"!{ROWS}.length")

    browse(scenario)


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

    browse(scenario, before=before, query=f"?platform=discord&chat={CHANNEL}&person={DISCORD_ANA}")


def test_a_draft_grows_is_stopped_and_gives_way_to_the_message(browse):
    async def scenario(world, tab):
        await say(tab, "tell me")
        for text in ("Once", "Once upon"):
            draft = {"chat_id": int(ANA), "draft_id": 7, "text": text, "can_stop": True, "keep_on_stop": True}
            assert (await world.bot("sendMessageDraft", **draft))["ok"]
        await tab.until("document.querySelector('.draft .body')?.innerText === 'Once upon'")
        await tab.click(".draft button")
        assert (await world.endpoint.wait(2))[1].body["stopped_message_generation"]["draft_id"] == 7
        await world.bot("sendMessage", chat_id=int(ANA), text="Once upon a time.")
        await tab.until("document.querySelector('.draft').hidden")
        assert (await tab.until(f"{ROWS}.length === 2 && {BODIES}"))[1] == "Once upon a time."

    browse(scenario)


def test_the_bots_commands_are_offered(browse):
    async def before(world):
        commands = [{"command": name, "description": f"the {name}"} for name in ("status", "stop", "new")]
        await world.bot("setMyCommands", commands=commands)

    async def scenario(world, tab):
        await tab.type("/st")
        await tab.until("document.querySelectorAll('.commands button').length === 2")
        await tab.press("ArrowDown")
        await tab.press("Enter")
        await tab.until("document.querySelector('#text').value === '/stop '")
        await tab.press("Enter")
        assert (await world.endpoint.wait(1))[0].body["message"]["text"] == "/stop "

    browse(scenario, before=before)


def test_a_person_blocks_the_bot_and_its_calls_are_refused(browse):
    async def scenario(world, tab):
        await say(tab, "hello")
        await tab.click("#block")
        await tab.until("document.querySelector('.head p').innerText.includes('the bot is blocked')")
        await world.bot("sendMessage", chat_id=int(ANA), text="are you there?")
        await tab.until("document.querySelector('.refused')?.innerText.includes('bot was blocked by the user')")
        await tab.click("#block")
        await tab.until("document.querySelector('#block').innerText === 'Block'")
        assert (await world.bot("sendMessage", chat_id=int(ANA), text="are you there?"))["ok"]

    browse(scenario)


def test_each_bot_has_its_own_page(browse):
    async def before(world):
        path = f"{world.platforms.url}/control/accounts/telegram.sales"
        async with world.session.put(path) as response:
            assert response.status == 201, await response.text()

    async def scenario(world, tab):
        assert await tab.until("!document.querySelector('.bots').hidden && document.querySelector('#bot').length") == 2
        await say(tab, "to the first")
        await tab.run("document.querySelector('#bot').value = 'telegram.sales'")
        await tab.run("document.querySelector('#bot').dispatchEvent(new Event('change'))")
        await tab.until("location.pathname.endsWith('/accounts/telegram.sales/chat') && document.body.dataset.live")
        await tab.until("document.querySelector('.head h2').innerText === 'Sales'")
        await say(tab, "to sales")
        assert await tab.until(f"{ROWS}.length") == 1

    browse(scenario, before=before, base="/chat")


# -- Discord ----------------------------------------------------------------------------------------------------------

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


# -- live, long and small ---------------------------------------------------------------------------------------------


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
    said = ["needs you: telegram receives nothing: none <b>. To mend it: emulator channel telegram connect"]
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
