import asyncio
import contextlib
import fcntl
import json
import math
import select
import time
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from functions import ingest
from shared.access import people
from shared.core import clock
from shared.core.errors import ConfigInvalid
from shared.core.policy import AccessPolicy
from shared.db.access import users
from shared.db.engine import connection
from shared.db.engine.connection import rows, transaction
from shared.db.roster import accounts, chats
from shared.inbound import events
from shared.replica import sync_permit
from shared.roster import wirings
from shared.runtime.kick import Listener
from tests.support import NOW, column, dump, make_agent, row

pytestmark = pytest.mark.usefixtures("day_of_the_events")

EVENTS = Path(__file__).parents[1] / "events"
PRIVATE = (EVENTS / "telegram/001_private_text.json").read_bytes()
DM = json.loads((EVENTS / "discord/011_slash_dm.json").read_text())["channel_id"]
SECRET = {"x-telegram-bot-api-secret-token": "a-Secret_that-telegram-repeats"}
KEY = SigningKey(bytes.fromhex(json.loads((EVENTS / "discord/signatures.json").read_text())["test_private_seed"]))


def discord(body, at=None):
    """A signed request from Discord: headers and body."""
    timestamp = str(int(time.time()) if at is None else at)
    signature = KEY.sign(timestamp.encode() + body).signature.hex()
    return {"headers": {"x-signature-ed25519": signature, "x-signature-timestamp": timestamp}, "content": body}


def post(serving, *calls, path="/webhooks/telegram"):
    """The answers to *calls*, which run at the same time."""

    async def go():
        async with serving(ingest) as client:
            return await asyncio.gather(*(client.request(**{"method": "POST", "url": path, **call}) for call in calls))

    return asyncio.run(go())


def telegram(body=PRIVATE, **fields):
    return {"content": body, "headers": SECRET, **fields}


def test_a_press_of_an_old_button_is_answered_so_that_it_stops_waiting(serving, conn):
    body = (EVENTS / "telegram/101_callback_query_topic.json").read_bytes()
    (answer,) = post(serving, telegram(body))
    press = json.loads(body)["callback_query"]["id"]
    assert answer.json() == {"method": "answerCallbackQuery", "callback_query_id": press}


def test_a_message_is_stored_and_answered_with_an_empty_200(serving, conn):
    (answer,) = post(serving, telegram())
    assert (answer.status_code, answer.content) == (200, b"")
    found = row(conn, "messages")
    names = ("channel", "platform_id", "sender", "sender_id", "message", "status", "agent")
    assert [found[name] for name in names] == [
        *("telegram", "5000000001", "Ana Ruiz", "5000000001", "Hello, can you summarise yesterday?"),
        *("pending", "assistant"),
    ]


REFUSED = {
    "no secret": ({"content": PRIVATE}, 401),
    "a wrong secret": ({"content": PRIVATE, "headers": {"x-telegram-bot-api-secret-token": "guess"}}, 401),
    "a secret that is no ASCII": ({"content": PRIVATE, "headers": {b"x-telegram-bot-api-secret-token": b"\xe9"}}, 401),
    "a GET without a secret": ({"method": "GET"}, 401),
    "an unknown channel": (telegram(url="/webhooks/whatsapp"), 404),
    "a channel that is a path": (telegram(url="/webhooks/..%2f..%2fetc"), 404),
    "another path": (telegram(url="/elsewhere"), 404),
    "another method": (telegram(method="PUT"), 405),
    "too large": (telegram(b"x" * (1024 * 1024 + 1)), 413),
    "Discord without a signature": ({"url": "/webhooks/discord", "content": b'{"type": 1}'}, 401),
}


@pytest.mark.parametrize(("call", "status"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_says_why_and_stores_nothing(serving, conn, call, status):
    before = dump(conn)
    (answer,) = post(serving, call)
    assert answer.status_code == status
    assert answer.json()["error"]
    assert dump(conn) == before


UNREADABLE = {
    "no JSON": b"{",
    "no UTF-8": b'{"update_id": "\xff"}',
    "no update": b"[]",
    "nothing": b"",
    "deep": b"[" * 99_999,
}


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_an_unreadable_body_is_acknowledged_and_its_reason_recorded_once(serving, conn, body):
    """After an error, Telegram would repeat it for a day and hold back later updates."""
    answers = post(serving, telegram(body), telegram(body))
    assert [answer.status_code for answer in answers] == [200, 200]
    assert rows(conn, "SELECT channel, reason FROM dropped") == [("telegram", "payload")]
    assert column(conn, "SELECT id FROM messages") == []


def test_a_redelivery_is_one_row_even_twenty_times_at_once(serving, conn):
    answers = post(serving, *[telegram()] * 20)
    assert {answer.status_code for answer in answers} == {200}
    assert column(conn, "SELECT count(*) FROM messages") == [1]
    post(serving, telegram())
    assert column(conn, "SELECT count(*) FROM messages") == [1]
    assert column(conn, "SELECT count(*) FROM sessions") == [1]
    assert column(conn, "SELECT count(*) FROM wirings") == [1]


def test_dispatch_is_kicked_for_new_messages_only(serving, environment):
    listener = Listener(environment, "dispatch")
    kicks = []

    async def go():
        async with serving(ingest) as client:
            for body in (PRIVATE, PRIVATE, numbered(1)):
                await client.post("/webhooks/telegram", **telegram(body))
                await asyncio.sleep(0)  # the requests of the same commit resume first
                kicks.append(_drained(listener))

    asyncio.run(go())
    listener.close()
    assert kicks == [True, False, True]


def _drained(listener):
    is_kicked = bool(select.select([listener.fileno()], [], [], 0)[0])
    listener.drain()
    return is_kicked


def test_a_locked_database_is_a_503_with_retry_after_and_nothing_is_stored(serving, conn, monkeypatch):
    monkeypatch.setattr(connection, "_BUSY_LIMIT_S", 0.02)
    rows(conn, "BEGIN IMMEDIATE")
    (answer,) = post(serving, telegram())
    rows(conn, "ROLLBACK")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json() == {"error": "not stored: BusyError"}
    assert column(conn, "SELECT id FROM messages") == []
    (answer,) = post(serving, telegram())
    assert answer.status_code == 200
    assert column(conn, "SELECT count(*) FROM messages") == [1]


def test_a_full_disk_is_a_503_and_the_redelivery_is_stored_when_there_is_room(serving, conn):
    async def go():
        async with serving(ingest) as client:
            writer = ingest._service.get().writer

            def limit(pages):
                return writer.run(lambda own: rows(own, f"PRAGMA max_page_count = {pages}") and None)

            await limit(1)
            long = json.loads(PRIVATE)
            long["message"]["text"] = "x" * 200_000
            full = await client.post("/webhooks/telegram", **telegram(json.dumps(long).encode()))
            nothing = dump(conn)["messages"], dump(conn)["dropped"]
            await limit(1_000_000)
            again = await client.post("/webhooks/telegram", **telegram(json.dumps(long).encode()))
            return full, nothing, again

    full, nothing, again = asyncio.run(go())
    assert (full.status_code, full.json()) == (503, {"error": "not stored: FullError"})
    assert nothing == ([], [])
    assert again.status_code == 200
    assert column(conn, "SELECT length(message) FROM messages") == [200_000]


SALES = {"x-telegram-bot-api-secret-token": "of-sales"}


def test_each_account_has_an_address_a_secret_and_chats_of_its_own(serving, conn, monkeypatch):
    """Two bots in one chat: the same person, the same chat's id, and the same number of an update."""
    monkeypatch.setenv("TELEGRAM_SALES_BOT_TOKEN", "7100200301:BB")
    monkeypatch.setenv("TELEGRAM_SALES_WEBHOOK_SECRET", "of-sales")
    with transaction(conn):
        accounts.add(conn, "telegram.sales", now_ms=NOW)
    calls = [
        telegram(url="/webhooks/telegram"),
        telegram(url="/webhooks/telegram.sales", headers=SALES),
        telegram(url="/webhooks/telegram.sales", headers=SALES),  # a redelivery
        telegram(url="/webhooks/telegram.sales"),  # signed with the first one's secret
    ]
    assert [each.status_code for each in post(serving, *calls)] == [200, 200, 200, 401]
    assert sorted(column(conn, "SELECT channel FROM messages")) == ["telegram", "telegram.sales"]
    assert sorted(column(conn, "SELECT channel FROM chats")) == ["telegram", "telegram.sales"]


def test_a_person_whom_one_bot_knows_is_known_to_all_bots_of_the_platform(serving, conn, monkeypatch):
    monkeypatch.setenv("POSTROOM_NEW_CHATS", "ask")
    monkeypatch.setenv("TELEGRAM_SALES_BOT_TOKEN", "7100200301:BB")
    monkeypatch.setenv("TELEGRAM_SALES_WEBHOOK_SECRET", "of-sales")
    with transaction(conn):
        accounts.add(conn, "telegram.sales", now_ms=NOW)
        ana = users.ensure(conn, "telegram", "5000000001", name="Ana", now_ms=NOW)
        people.grant(conn, ana.id, "owner", None, by="test", now_ms=NOW)
        chat = chats.ensure(conn, "telegram.sales", "5000000001", is_group=False, sender_policy="strict", now_ms=NOW)
        wirings.connect(conn, chat.id, "assistant", now_ms=NOW)
    (answer,) = post(serving, telegram(headers=SALES), path="/webhooks/telegram.sales")
    assert answer.status_code == 200
    assert column(conn, "SELECT channel FROM messages") == ["telegram.sales"]
    assert column(conn, "SELECT channel FROM users") == ["telegram"]


def test_two_bots_in_one_group_answer_each_for_itself(serving, conn, monkeypatch):
    """Telegram gives both bots the message; only the mentioned one takes it."""
    monkeypatch.setenv("TELEGRAM_SALES_BOT_TOKEN", "7100200301:BB")
    monkeypatch.setenv("TELEGRAM_SALES_WEBHOOK_SECRET", "of-sales")
    monkeypatch.setenv("TELEGRAM_SALES_BOT_USERNAME", "sales_bot")
    with transaction(conn):
        accounts.add(conn, "telegram.sales", now_ms=NOW)
        for channel in ("telegram", "telegram.sales"):
            group = chats.ensure(conn, channel, "-4001", is_group=True, sender_policy="public", now_ms=NOW)
            wirings.connect(conn, group.id, "assistant", {"engage_mode": "mention"}, now_ms=NOW)
    sender = {"id": 5000000001, "is_bot": False, "first_name": "Ana"}
    message = {"message_id": 7, "from": sender, "chat": {"id": -4001, "type": "group", "title": "Lunch"}, "date": NOW}
    said = {"text": "@sales_bot hello", "entities": [{"type": "mention", "offset": 0, "length": 10}]}
    body = json.dumps({"update_id": 1, "message": {**message, **said}}).encode()
    calls = [telegram(body), telegram(body, url="/webhooks/telegram.sales", headers=SALES)]
    assert [each.status_code for each in post(serving, *calls)] == [200, 200]
    assert column(conn, "SELECT channel FROM messages WHERE trigger = 1") == ["telegram.sales"]
    assert column(conn, "SELECT channel || ' ' || reason FROM dropped") == ["telegram not_addressed"]


def test_new_chats_of_an_agents_own_bot_go_to_that_agent(serving, conn, monkeypatch):
    monkeypatch.setenv("TELEGRAM_SALES_BOT_TOKEN", "7100200301:BB")
    monkeypatch.setenv("TELEGRAM_SALES_WEBHOOK_SECRET", "of-sales")
    make_agent(conn, "clerk")
    with transaction(conn):
        accounts.add(conn, "telegram.sales", agent="clerk", now_ms=NOW)
    calls = [telegram(), telegram(url="/webhooks/telegram.sales", headers=SALES)]
    assert [each.status_code for each in post(serving, *calls)] == [200, 200]
    found = column(conn, "SELECT channel || ' ' || agent FROM messages ORDER BY channel")
    assert found == ["telegram assistant", "telegram.sales clerk"]


def test_an_account_that_nobody_added_is_a_404_though_its_settings_are_there(serving, conn, monkeypatch):
    monkeypatch.setenv("TELEGRAM_SALES_BOT_TOKEN", "7100200301:BB")
    monkeypatch.setenv("TELEGRAM_SALES_WEBHOOK_SECRET", "of-sales")
    (answer,) = post(serving, telegram(headers=SALES), path="/webhooks/telegram.sales")
    assert answer.status_code == 404
    assert column(conn, "SELECT count(*) FROM messages") == [0]


def test_an_account_whose_settings_are_missing_is_a_503_and_the_log_names_them(serving, conn, capfd):
    with transaction(conn):
        accounts.add(conn, "telegram.sales", now_ms=NOW)
    (answer,) = post(serving, telegram(headers=SALES), path="/webhooks/telegram.sales")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "TELEGRAM_SALES_BOT_TOKEN" not in answer.text
    assert "TELEGRAM_SALES_BOT_TOKEN" in "".join(capfd.readouterr())


def test_a_channel_without_settings_answers_503_so_that_the_platform_retries(serving, conn, monkeypatch):
    monkeypatch.delenv("TELEGRAM_BOT_TOKEN")
    (answer,) = post(serving, telegram())
    assert answer.status_code == 503
    assert "not configured" in answer.json()["error"]


def test_discords_ping_is_answered_and_stores_nothing(serving, conn):
    before = dump(conn)
    body = (EVENTS / "discord/001_ping.json").read_bytes()
    (answer,) = post(serving, {"url": "/webhooks/discord", **discord(body)})
    assert (answer.status_code, answer.json()) == (200, {"type": 1})
    assert dump(conn) == before


def ask(name="011_slash_dm.json"):
    return {"url": "/webhooks/discord", **discord((EVENTS / "discord" / name).read_bytes())}


def test_a_slash_command_is_deferred_and_stored_without_its_token(serving, conn):
    body = json.loads((EVENTS / "discord/011_slash_dm.json").read_text())
    (answer,) = post(serving, ask())
    assert answer.json() == {"type": 5}
    assert row(conn, "messages")["channel"] == "discord"
    assert column(conn, "SELECT content ->> '$.own_answer' FROM messages") == [1]
    assert body["token"] not in str(dump(conn))


def test_a_command_that_the_bot_does_not_know_asks_no_agent(serving, conn):
    """The person is told at once, and must not get a second answer."""
    (answer,) = post(serving, ask("027_slash_unknown_command.json"))
    assert answer.json()["type"] == 4
    assert column(conn, "SELECT id FROM messages") == []
    assert column(conn, "SELECT reason FROM dropped") == ["unsupported"]


def test_no_deferral_is_promised_where_no_agent_answers(serving, conn, monkeypatch):
    monkeypatch.setenv("POSTROOM_NEW_CHATS", "refuse")
    (answer,) = post(serving, ask())
    assert answer.json()["type"] == 4
    assert column(conn, "SELECT reason FROM dropped") == ["not_wired"]


@pytest.fixture
def discord_chat(conn):
    """The direct chat of the recorded command, with an agent that answers and an owner."""

    def make(sender_policy):
        with transaction(conn):
            owner = users.ensure(conn, "discord", "9", name="Olga", now_ms=NOW)
            people.grant(conn, owner.id, "owner", None, by="test", now_ms=NOW)
            chat = chats.ensure(conn, "discord", DM, is_group=False, sender_policy=sender_policy, now_ms=NOW)
            wirings.connect(conn, chat.id, "assistant", now_ms=NOW)

    return make


def test_a_deferral_is_kept_where_an_approver_is_asked_first(serving, conn, discord_chat):
    """Our notice replaces the deferral, and the agent's answer replaces our notice."""
    discord_chat("request_approval")
    (answer,) = post(serving, ask())
    assert answer.json() == {"type": 5}
    waiting = (
        "SELECT message FROM responses WHERE platform_id = :dm AND content ->> '$.context.sealed_token' IS NOT NULL"
    )
    assert ["waits for the decision" in text for text in column(conn, waiting, dm=DM)] == [True]
    assert column(conn, "SELECT id FROM messages") == []


def test_a_refused_sender_is_told_at_once(serving, conn, discord_chat):
    discord_chat("strict")
    (answer,) = post(serving, ask())
    assert answer.json()["type"] == 4
    assert "may not" in answer.json()["data"]["content"]
    assert column(conn, "SELECT reason FROM dropped") == ["sender_unknown"]
    assert column(conn, "SELECT id FROM responses") == []


def test_a_rate_limited_sender_is_told_in_place_of_the_answer(serving, discord_chat, monkeypatch):
    monkeypatch.setenv("POSTROOM_SENDER_LIMIT", "1")
    discord_chat("public")
    bodies = [json.loads((EVENTS / "discord/011_slash_dm.json").read_text()) | {"id": str(n)} for n in range(3)]
    calls = [{"url": "/webhooks/discord", **discord(json.dumps(body).encode())} for body in bodies]
    types = [answer.json()["type"] for call in calls for answer in post(serving, call)]
    assert types == [5, 5, 4]


def test_deliver_is_kicked_for_our_own_notices(serving, environment, conn, monkeypatch):
    monkeypatch.setenv("POSTROOM_NEW_CHATS", "refuse")
    listeners = {name: Listener(environment, name) for name in ("dispatch", "deliver")}
    update = json.loads(PRIVATE)
    with transaction(conn):
        chat = chats.ensure(conn, "telegram", "5000000001", is_group=False, sender_policy="public", now_ms=NOW)
        wirings.connect(conn, chat.id, "assistant", now_ms=NOW)

    async def go():
        async with serving(ingest) as client:
            update["message"]["text"] = "/clear"
            await client.post("/webhooks/telegram", **telegram(json.dumps(update).encode()))
            await asyncio.sleep(0)
            return {name: _drained(listener) for name, listener in listeners.items()}

    kicked = asyncio.run(go())
    for listener in listeners.values():
        listener.close()
    assert kicked == {"dispatch": False, "deliver": True}


def test_a_captured_request_is_refused_later(serving, conn):
    body = (EVENTS / "discord/011_slash_dm.json").read_bytes()
    (answer,) = post(serving, {"url": "/webhooks/discord", **discord(body, at=1_795_168_000)})
    assert answer.status_code == 401
    assert column(conn, "SELECT id FROM messages") == []


def test_health_needs_no_secret(serving):
    (answer,) = post(serving, {"method": "GET", "url": "/healthz"})
    assert answer.json() == {"ok": True, "function": "ingest"}


# -- the replica, where a 2xx promises that


class Litestream:
    """Answers yes or no; with ``held``, only when told to. It sees what is committed at that instant."""

    def __init__(self, conn):
        self.conn = conn
        self.can = True
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.found = []

    async def serve(self, reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        self.found.append(column(self.conn, "SELECT count(*) FROM messages")[0])
        await self.may_answer.wait()
        body = b'{"txid": 5, "replicated_txid": 5}' if self.can else b'{"txid": 5, "replicated_txid": 4}'
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()


@pytest.fixture
def replicated(serving, environment, monkeypatch, conn):
    """An ingest that waits for the replica, and its Litestream."""
    monkeypatch.setenv("POSTROOM_DURABILITY", "replicated")
    monkeypatch.setenv("POSTROOM_REPLICATION_TIMEOUT_MS", "60000")
    monkeypatch.setenv("POSTROOM_LITESTREAM_SOCKET", str(environment / "l.sock"))
    sync_permit.grant(environment / "l.sock", math.inf)

    @contextlib.asynccontextmanager
    async def run():
        litestream = Litestream(conn)
        async with await asyncio.start_unix_server(litestream.serve, environment / "l.sock"), serving(ingest) as client:
            yield client, litestream

    return run


WAITS = {
    "a message": PRIVATE,
    "what asks no agent": (EVENTS / "telegram/032_private_edited.json").read_bytes(),
    "what can't be read": b"{",
}


@pytest.mark.parametrize("body", WAITS.values(), ids=WAITS)
def test_an_event_is_acknowledged_only_when_it_is_in_the_replica(replicated, until, body):
    async def go():
        async with replicated() as (client, litestream):
            litestream.may_answer.clear()
            post = asyncio.create_task(client.post("/webhooks/telegram", **telegram(body)))
            await until(lambda: litestream.found)
            held = post.done()
            litestream.may_answer.set()
            return held, (await post).status_code

    assert asyncio.run(go()) == (False, 200)


def test_an_unreplicated_event_is_a_503_even_as_a_duplicate(replicated, conn):
    """The redelivery is not stored again, and not acknowledged earlier."""

    async def go():
        async with replicated() as (client, litestream):
            litestream.can = False
            answers = [await client.post("/webhooks/telegram", **telegram()) for _ in range(2)]
            litestream.can = True
            return [*answers, await client.post("/webhooks/telegram", **telegram())]

    answers = asyncio.run(go())
    assert [answer.status_code for answer in answers] == [503, 503, 200]
    assert [answer.headers.get("retry-after") for answer in answers] == ["5", "5", None]
    assert "not in the replica" in answers[0].json()["error"]
    assert column(conn, "SELECT count(*) FROM messages") == [1]


def test_concurrent_webhooks_share_one_commit_and_one_wait(replicated, until):
    """The first commits alone, at once. All that come while it waits share one commit and one question."""

    async def go():
        async with replicated() as (client, litestream):
            litestream.may_answer.clear()
            first = asyncio.create_task(client.post("/webhooks/telegram", **telegram()))
            await until(lambda: litestream.found)
            others = [
                asyncio.create_task(client.post("/webhooks/telegram", **telegram(numbered(n)))) for n in range(40)
            ]
            await until(lambda: column(litestream.conn, "SELECT count(*) FROM messages") == [41])
            litestream.may_answer.set()
            answers = await asyncio.gather(first, *others)
            return litestream.found, {answer.status_code for answer in answers}

    found, statuses = asyncio.run(go())
    assert statuses == {200}
    assert (found[0], found[-1]) == (1, 41)
    assert len(found) <= 3  # one; two if the news of the last commit came late


def numbered(number):
    update = json.loads(PRIVATE)
    update["update_id"] += 1 + number
    update["message"]["message_id"] += 1 + number
    return json.dumps(update).encode()


def test_events_without_a_row_and_local_channels_do_not_wait_for_the_replica(replicated, monkeypatch):
    monkeypatch.setenv("POSTROOM_DURABILITY", "replicated,telegram=local")

    async def go():
        async with replicated() as (client, litestream):
            ping = (EVENTS / "discord/001_ping.json").read_bytes()
            answers = [
                await client.post("/webhooks/discord", **discord(ping)),
                await client.post("/webhooks/telegram", content=PRIVATE),
                await client.post("/webhooks/telegram", **telegram()),
            ]
            return [answer.status_code for answer in answers], litestream.found

    assert asyncio.run(go()) == ([200, 401, 200], [])


def test_an_impossible_durability_is_refused_at_the_start(serving, monkeypatch):
    monkeypatch.setenv("POSTROOM_DURABILITY", "replicated")
    with pytest.raises(ConfigInvalid, match="POSTROOM_LITESTREAM_SOCKET"):
        post(serving, telegram())


# -- one commit for many


def test_concurrent_webhooks_share_a_commit_and_a_single_one_commits_at_once(serving, conn, until):
    """Counts the commit frames of the write-ahead log, each of which holds the size of the file.

    The first of the concurrent ones finds the database locked; the others come while it waits.
    """

    async def go():
        async with serving(ingest) as client:
            await client.post("/webhooks/telegram", **telegram())
            before = commits(conn)
            await client.post("/webhooks/telegram", **telegram(numbered(0)))
            alone = commits(conn) - before
            rows(conn, "BEGIN IMMEDIATE")
            calls = [telegram(numbered(number)) for number in range(1, 65)]
            posts = [asyncio.create_task(client.post("/webhooks/telegram", **calls[0]))]
            await until(lambda: is_somebody_writing(conn))
            posts += [asyncio.create_task(client.post("/webhooks/telegram", **call)) for call in calls[1:]]
            writer = ingest._service.get().writer
            await until(lambda: len(writer._waiting) == 63)
            rows(conn, "ROLLBACK")
            await asyncio.gather(*posts)
            return alone, commits(conn) - before - alone

    assert asyncio.run(go()) == (1, 2)
    assert column(conn, "SELECT count(*) FROM messages") == [66]


class Timeless(asyncio.SelectorEventLoop):
    """Its time stands still: a timer never fires."""

    def time(self):
        return 0.0


def test_a_single_webhook_waits_for_no_timer(serving, conn):
    async def go():
        async with serving(ingest) as client:
            return [(await client.post("/webhooks/telegram", **telegram(numbered(n)))).status_code for n in range(3)]

    with asyncio.Runner(loop_factory=Timeless) as runner:
        assert runner.run(go()) == [200] * 3


def is_somebody_writing(conn):
    with Path(f"{conn.filename}-gate").open("wb") as gate:
        try:
            fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def commits(conn):
    """The number of transactions in the write-ahead log. https://sqlite.org/fileformat2.html#the_write_ahead_log"""
    log = Path(f"{conn.filename}-wal").read_bytes()
    page = int.from_bytes(log[8:12])
    heads = (log[at : at + 24] for at in range(32, len(log), 24 + page))
    return sum(head[4:8] != bytes(4) and head[8:16] == log[16:24] for head in heads)


# -- whole conversations, as Telegram sends them


def recorded(file, number=None, **changes):
    """A recorded update with today's date; *number*: as another update. *changes*: of its message."""
    update = json.loads((EVENTS / "telegram" / file).read_bytes())
    (kind,) = update.keys() - {"update_id"}
    update[kind] |= {"date": clock.now_ms() // 1000, **changes}
    return telegram(json.dumps(update if number is None else {"update_id": number, f"edited_{kind}": update[kind]}))


def place_of(file):
    """The chat and the sender of a recorded message."""
    message = json.loads((EVENTS / "telegram" / file).read_bytes())["message"]
    return {"chat": message["chat"], "from": message["from"]}


def joined(conn):
    with transaction(conn):
        return events.handle_due_albums(conn, AccessPolicy(new_chats="wire"), now_ms=clock.now_ms() + 1_000)


def test_a_recorded_album_its_late_piece_and_its_edits_are_one_conversation(serving, environment, conn):
    listener = Listener(environment, "dispatch")
    first, second = recorded("304_album_documents_1.json"), recorded("305_album_documents_2.json")
    post(serving, second, first, second)
    assert _drained(listener)
    listener.close()
    joined(conn)
    post(serving, recorded("306_album_documents_late.json"), first)
    joined(conn)
    assert rows(conn, "SELECT message, json_array_length(files) FROM messages ORDER BY id") == [
        ("the contract\nand the annex", 2),
        ("", 1),
    ]
    edit = {"edit_date": clock.now_ms() // 1000, "caption": "and annex A"}
    post(
        serving, recorded("305_album_documents_2.json", 77, **edit), recorded("305_album_documents_2.json", 77, **edit)
    )
    post(serving, recorded("304_album_documents_1.json", 78, edit_date=edit["edit_date"]))
    assert column(conn, "SELECT message FROM messages ORDER BY id") == ["the contract\nand annex A", ""]
    assert column(conn, "SELECT type FROM events WHERE type = 'message_edited'") == ["message_edited"]
    stop = {"text": "/stop", "entities": [{"type": "bot_command", "offset": 0, "length": 5}]}
    post(serving, recorded("314_before_noop_edit.json", **stop, **place_of("304_album_documents_1.json")))
    assert column(conn, "SELECT status FROM messages") == ["cancelled", "cancelled"]
