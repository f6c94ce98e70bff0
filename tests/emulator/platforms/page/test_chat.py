"""What a person does on the chat page, and what the page then shows, in a real browser."""

import zlib
from struct import pack

import pytest

from tests.emulator.platforms.page.conversation import ANA, BODIES, LAST, ROWS, act, say

pytestmark = pytest.mark.browser


def png():
    """A picture of 4 by 4 pixels."""
    rows = (b"\0" + b"\x20\x90\xe0" * 4) * 4
    parts = ((b"IHDR", pack(">IIBBBBB", 4, 4, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    chunks = [pack(">I", len(data)) + name + data + pack(">I", zlib.crc32(name + data)) for name, data in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


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
