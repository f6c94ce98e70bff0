"""What people see of a running turn: typing as often as the platform needs it, and drafts where the agent has them."""

import asyncio
import json

import httpx
import pytest

from shared.channels import registry
from shared.core.settings import Settings
from shared.db.engine.connection import rows, transaction
from shared.roster.served_accounts import ServedAccounts
from shared.turns.run.showing.presence import FIRST_AFTER_S, FIRST_LINE_S, REPEAT_DRAFT_S, REPEAT_LINE_S, Presence
from tests.fake_client import FakeClient
from tests.shared.turns.tools.calls import process_on
from tests.support import NOW, column, make_agent, put, take

registry.import_all()  # so that no sleep of these tests begins in another turn of the event loop


class Timers:
    """Sleeps that end when the test moves its clock."""

    def __init__(self):
        self.at_s = 0.0
        self._waiting = []

    async def sleep(self, seconds):
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((self.at_s + seconds, done))
        await done

    async def move(self, seconds):
        """Let *seconds* go by, each sleep ending at its own time."""
        until = self.at_s + seconds
        await self._settled()
        while due := sorted((each for each in self._waiting if each[0] <= until), key=lambda each: each[0]):
            self.at_s, done = due[0]
            self._waiting.remove(due[0])
            if not done.done():
                done.set_result(None)
            await self._settled()
        self.at_s = until

    @staticmethod
    async def _settled():
        for _ in range(50):
            await asyncio.sleep(0)


class Shown:
    """The calls of a platform: when, what, and the text."""

    def __init__(self, timers, *script):
        self.calls = []
        self._timers = timers
        self._script = list(script)

    def __call__(self, request):
        body = json.loads(request.content or b"{}")
        method = request.url.path.rpartition("/")[2]
        self.calls.append((round(self._timers.at_s, 1), method, body.get("text")))
        self.body = body
        return self._script.pop(0) if self._script else httpx.Response(200, json={"ok": True, "result": True})

    def of(self, method):
        return [at_s for at_s, found, _ in self.calls if found == method]


def watch(conn, db, act, *script):
    """Show the turn that is due while ``act(timers, platform, said)`` runs; the calls of the platform."""
    claim = take(conn, token="turn_a")
    timers = Timers()
    platform = Shown(timers, *script)

    async def go(process):
        accounts = ServedAccounts(Settings.load())
        presence = Presence(process, accounts, FakeClient(platform), lambda: NOW, timers.sleep)
        async with presence.shown(claim) as said:
            await act(timers, platform, said)
        await timers.move(100)

    with process_on(db) as process:
        asyncio.run(go(process))
    return platform


def of_channel(conn, channel, platform_id="300"):
    with transaction(conn):
        rows(conn, "UPDATE messages SET channel = :channel, platform_id = :id", {"channel": channel, "id": platform_id})


async def half_a_minute(timers, platform, said):
    await timers.move(30)


def test_telegram_shows_typing_every_four_seconds_until_the_turn_ends(conn, db):
    put(conn)
    at_s = watch(conn, db, half_a_minute).of("sendChatAction")
    assert at_s == [round(FIRST_AFTER_S + 4 * step, 1) for step in range(8)]


def test_discord_shows_it_every_eight_seconds(conn, db):
    put(conn)
    of_channel(conn, "discord")
    assert watch(conn, db, half_a_minute).of("typing") == [0.3, 8.3, 16.3, 24.3]


def test_a_turn_that_is_over_at_once_shows_nothing(conn, db):
    put(conn)

    async def quick(timers, platform, said):
        await timers.move(FIRST_AFTER_S / 2)

    assert watch(conn, db, quick).calls == []


def test_the_end_of_a_turn_that_was_over_at_once_waits_for_nothing(conn, db):
    put(conn)
    others = []

    async def go(process):
        presence = Presence(process, ServedAccounts(Settings.load()), FakeClient(None), lambda: NOW, Timers().sleep)
        async with presence.shown(take(conn, token="turn_a")):
            asyncio.get_running_loop().call_soon(others.append, "another turn of the loop")
        assert others == []

    with process_on(db) as process:
        asyncio.run(go(process))


class Silent:
    """A platform that answers no call, and takes a moment to give up."""

    pacing = None

    def __init__(self):
        self.called, self.is_over = asyncio.Event(), False

    async def request(self, *_, **__):
        self.called.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(3):
                await asyncio.sleep(0)
            self.is_over = True


def test_no_call_is_left_when_the_turn_ends(conn, db):
    """A draft that arrives behind the answer would stay there."""
    put(conn)
    silent, timers = Silent(), Timers()

    async def go(process):
        presence = Presence(process, ServedAccounts(Settings.load()), silent, lambda: NOW, timers.sleep)
        async with presence.shown(take(conn, token="turn_a")):
            await timers.move(1)
            await asyncio.wait_for(silent.called.wait(), 60)
        assert silent.is_over

    with process_on(db) as process:
        asyncio.run(go(process))


UNSEEN = {
    "a task": {"kind": "task"},
    "what only one person sees": {"content": {"context": {"receiver_user_id": "5"}}},
}


@pytest.mark.parametrize("fields", UNSEEN.values(), ids=UNSEEN)
def test_nobody_waits_there(conn, db, fields):
    put(conn, **fields)
    assert watch(conn, db, half_a_minute).calls == []


def test_a_wait_that_the_platform_asks_for_is_kept(conn, db):
    put(conn)
    wait = httpx.Response(429, json={"ok": False, "error_code": 429, "parameters": {"retry_after": 20}})
    assert watch(conn, db, half_a_minute, wait).of("sendChatAction") == [0.3, 20.3, 24.3, 28.3]


def test_a_platform_that_can_not_show_it_is_asked_once(conn, db):
    put(conn)
    gone = httpx.Response(403, json={"ok": False, "error_code": 403, "description": "Forbidden: bot was kicked"})
    assert watch(conn, db, half_a_minute, gone).of("sendChatAction") == [0.3]


def test_after_a_restart_the_next_run_of_the_turn_shows_it_again(conn, db):
    put(conn)
    watch(conn, db, half_a_minute)
    with transaction(conn):  # as a rescue leaves it
        rows(conn, "UPDATE messages SET status = 'pending', claimed_by = NULL, lease = NULL")
    assert watch(conn, db, half_a_minute).of("sendChatAction")[0] == 0.3


def with_drafts(conn):
    make_agent(conn, "assistant", drafts=True, is_default=True)
    put(conn)


async def begun(timers, platform):
    """The first draft is shown: its row was written, by another thread."""
    await timers.move(FIRST_AFTER_S)
    async with asyncio.timeout(20):
        while not platform.of("sendMessageDraft"):  # noqa: ASYNC110 - the platform is a function
            await asyncio.sleep(0.001)


async def silent_drafts(timers, platform, said):
    await begun(timers, platform)
    await timers.move(29.7)


async def saying(timers, platform, said):
    await begun(timers, platform)
    await timers.move(2.7)
    said.say(lambda: "One")
    await timers.move(0.1)
    said.say(lambda: "One, two")
    await timers.move(5)


def drafts(platform):
    return [(at_s, text) for at_s, method, text in platform.calls if method == "sendMessageDraft"]


def test_a_draft_shows_what_the_agent_has_said_and_can_stop_the_turn(conn, db):
    with_drafts(conn)
    platform = watch(conn, db, saying)
    texts = [text for _, text in drafts(platform)]
    assert [text or "" for text in texts] == ["", "One", "One, two"]
    (row,) = rows(conn, "SELECT id, turn, agent, channel, platform_id FROM drafts")
    assert row[1:] == ("turn_a", "assistant", "telegram", "100")


def test_what_was_said_is_read_once_for_a_draft_and_not_for_each_text(conn, db):
    """It is all texts of the turn joined: an agent that says 1000 texts would freeze the others."""
    with_drafts(conn)
    read = []

    def text():
        read.append(1)
        return str(len(read))

    async def chattering(timers, platform, said):
        await begun(timers, platform)
        for _ in range(1000):
            said.say(text)
        await timers.move(5)

    assert [shown for _, shown in drafts(watch(conn, db, chattering))][1:] == ["1"]
    assert len(read) == 1


def test_a_draft_stays_although_nothing_new_is_said(conn, db):
    with_drafts(conn)
    at_s = [at_s for at_s, _ in drafts(watch(conn, db, silent_drafts))]
    assert len(at_s) == 2
    assert at_s[1] - at_s[0] <= REPEAT_DRAFT_S + 2 < 30, "Telegram forgets a draft after 30 s"


def test_the_first_failure_ends_the_drafts_and_not_the_typing(conn, db):
    with_drafts(conn)
    typed = httpx.Response(200, json={"ok": True, "result": True})
    refused = httpx.Response(400, json={"ok": False, "error_code": 400, "description": "Bad Request: nope"})
    platform = watch(conn, db, saying, typed, refused)
    assert len(drafts(platform)) == 1
    assert platform.of("sendChatAction") == [0.3, 4.3]


def test_an_agent_has_no_drafts_unless_its_row_says_so(conn, db):
    put(conn)
    assert drafts(watch(conn, db, half_a_minute)) == []
    assert column(conn, "SELECT id FROM drafts") == []


def test_a_group_has_no_drafts(conn, db):
    make_agent(conn, "assistant", drafts=True, is_default=True)
    put(conn, content={"is_group": True})
    assert drafts(watch(conn, db, half_a_minute)) == []


# -- the line that tells what the agent does

LINES = "SELECT message, content FROM responses ORDER BY id"
AT_FIRST = FIRST_AFTER_S + FIRST_LINE_S


async def written(conn, count):
    while column(conn, "SELECT count(*) FROM responses")[0] < count:  # noqa: ASYNC110 - a thread writes them
        await asyncio.sleep(0)


async def sent(conn, count=1):
    """As ``deliver`` does with what waits, once so many responses are written."""
    await written(conn, count)
    rows(conn, "UPDATE responses SET status = 'acked', acked_at = 1, parts = '[\"70\"]' WHERE status = 'pending'")


@pytest.mark.parametrize("channel", ["telegram", "discord"])
def test_a_line_tells_what_the_agent_does_and_changes(conn, db, channel):
    make_agent(conn, "assistant", progress=True)
    put(conn, content={"is_group": True})
    of_channel(conn, channel)

    async def act(timers, platform, said):
        said.acts.append("Read")
        await timers.move(AT_FIRST - 0.1)
        assert rows(conn, LINES) == []
        await timers.move(0.2)
        await sent(conn)
        said.acts += ["Read", "Grep"]
        await timers.move(REPEAT_LINE_S)
        await sent(conn, 2)

    watch(conn, db, act)
    (line,) = column(conn, "SELECT min(id) FROM responses")
    assert rows(conn, LINES) == [("reading a file …", "{}"), ("reading 3 files …", f'{{"edits": {line}}}')]
    assert column(conn, "SELECT count(*) FROM responses WHERE in_reply_to IS NOT NULL OR agent IS NOT NULL") == [0]


def test_a_change_waits_until_the_one_before_it_is_sent_and_none_says_the_same_twice(conn, db):
    make_agent(conn, "assistant", progress=True)
    put(conn)

    async def act(timers, platform, said):
        await timers.move(AT_FIRST + 0.1)
        await written(conn, 1)
        said.acts.append("Read")
        await timers.move(3 * REPEAT_LINE_S)
        assert column(conn, "SELECT message FROM responses") == ["working …"]
        await sent(conn)
        await timers.move(REPEAT_LINE_S)
        await sent(conn, 2)
        await timers.move(3 * REPEAT_LINE_S)

    watch(conn, db, act)
    assert column(conn, "SELECT message FROM responses") == ["working …", "reading a file …"]


@pytest.mark.parametrize(
    ("settings", "content"),
    [({}, {}), ({"progress": True, "drafts": True}, {}), ({"progress": True}, {"context": {"receiver_user_id": "5"}})],
    ids=["an agent that wants none", "a draft is shown", "only one person of the group may see it"],
)
def test_there_is_no_line(conn, db, settings, content):
    make_agent(conn, "assistant", **settings)
    put(conn, content=content)

    async def act(timers, platform, said):
        await timers.move(60)

    watch(conn, db, act)
    assert rows(conn, LINES) == []
