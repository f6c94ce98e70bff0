"""Telegram's delivery of updates: order, retries, expiry, restart."""

import asyncio
import gc

from aiohttp import web

from emulator.platforms.bus import EventBus
from emulator.platforms.config import SystemClock
from emulator.platforms.store import PlatformStore
from emulator.platforms.telegram.queue import KEEP_UPDATES, UpdateQueue

ANA, BEN, GROUP = "5000000001", "5000000002", "-4001002003"
HOUR_MS = 3_600_000


def texts(world):
    return [got.body["message"]["text"] for got in world.endpoint.got]


def test_an_update_carries_the_secret_and_a_message_object(play):
    async def scenario(world):
        await world.platforms.register()
        said = await world.say("/start abc @postroom_bot")
        (got,) = await world.endpoint.wait(1)

        assert got.headers["X-Telegram-Bot-Api-Secret-Token"] == world.env["TELEGRAM_WEBHOOK_SECRET"]
        assert got.headers["Content-Type"] == "application/json"
        assert got.body["update_id"] == said["update_id"]
        message = got.body["message"]
        assert message["chat"] == {"id": int(ANA), "first_name": "Ana", "username": "ana_ruiz", "type": "private"}
        assert message["from"]["id"] == int(ANA)
        assert message["date"] == world.clock.now // 1000
        assert [entity["type"] for entity in message["entities"]] == ["bot_command", "mention"]

    play(scenario)


def test_a_chat_is_delivered_in_order_and_a_failing_update_holds_back_no_other_chat(play):
    async def scenario(world):
        is_broken = True

        def answer(got):
            is_first = got.body["message"]["text"] == "first"
            return web.Response(status=503 if is_first and is_broken else 200)

        world.endpoint.telegram = answer
        await world.platforms.register()
        await world.say("first")
        assert await world.clock.asleep() == 2000  # it failed, failed in the immediate retry, and waits now
        await world.say("second")
        await world.say("other chat", BEN)
        await world.endpoint.wait(3)
        assert texts(world) == ["first", "first", "other chat"]

        is_broken = False
        world.clock.advance(2000)
        await world.endpoint.wait(5)
        assert texts(world)[3:] == ["first", "second"]

    play(scenario)


def test_retries_follow_telegrams_schedule_for_a_day(play):
    async def scenario(world):
        news = await world.live_events()
        world.endpoint.telegram = lambda got: web.Response(status=500)
        await world.platforms.register()
        start = world.clock.now
        said = await world.say("poison")
        dropped = await news.until("delivery", update_id=said["update_id"], state="dropped")

        assert world.clock.waits[:5] == [2000, 4000, 8000, 16_000, 32_000]
        assert all(60_000 <= wait <= 120_000 for wait in world.clock.waits[5:])
        assert dropped["attempts"] == len(world.endpoint.got) == len(world.clock.waits) + 2
        assert 24 * HOUR_MS - 120_000 < world.clock.now - start <= 24 * HOUR_MS
        info = (await world.bot("getWebhookInfo"))["result"]
        assert info["last_error_message"] == "Wrong response from the webhook: 500 Internal Server Error"

    play(scenario, runs=True)


def test_an_integer_retry_after_replaces_the_schedule(play):
    async def scenario(world):
        world.endpoint.telegram = lambda got: web.Response(status=503, headers={"Retry-After": "5"})
        await world.platforms.register()
        await world.say("hello")
        assert await world.clock.asleep() == 5000

    play(scenario)


def test_the_waits_can_be_scaled(play):
    async def scenario(world):
        world.endpoint.telegram = lambda got: web.Response(status=503)
        await world.platforms.register()
        await world.say("hello")
        assert await world.clock.asleep() == 20

    play(scenario, retry_scale=0.01)


def test_a_redirect_is_a_failure_and_not_followed(play):
    async def scenario(world):
        world.endpoint.telegram = lambda got: web.Response(status=302, headers={"Location": "/telegram"})
        await world.platforms.register()
        said = await world.say("hello")
        await world.clock.asleep()
        assert (await world.delivery(said["update_id"]))["status"] == 302
        assert len(world.endpoint.got) == 2

    play(scenario)


def test_a_missing_answer_times_out(play):
    async def scenario(world):
        never = asyncio.Event()

        async def answer(got):
            await never.wait()
            return web.Response()

        world.endpoint.telegram = answer
        await world.platforms.register()
        said = await world.say("hello")
        await world.clock.asleep()
        assert (await world.delivery(said["update_id"]))["error"] == "Read timeout expired"
        never.set()

    play(scenario, answer_timeout_ms=500)


def test_410_for_more_than_23_hours_removes_the_webhook(play):
    async def scenario(world):
        news = await world.live_events()
        world.endpoint.telegram = lambda got: web.Response(status=410)
        await world.platforms.register()
        start = world.clock.now
        await world.say("hello")
        while world.clock.now - start < 23 * HOUR_MS or (await world.bot("getWebhookInfo"))["result"]["url"]:
            await news.until("delivery")
        assert 23 * HOUR_MS < world.clock.now - start < 24 * HOUR_MS
        assert (await world.bot("getWebhookInfo"))["result"]["pending_update_count"] == 1

    play(scenario, runs=True)


def test_a_method_in_the_answer_is_called_but_not_one_that_changes_the_webhook(play):
    async def scenario(world):
        news = await world.live_events()
        answers = iter(
            [
                {"method": "setWebhook", "url": ""},
                {"method": "sendMessage", "chat_id": int(ANA), "text": "from the answer"},
            ]
        )
        world.endpoint.telegram = lambda got: web.json_response(next(answers))
        await world.platforms.register()
        await world.say("one")
        await world.say("two")
        await news.until("call", method="sendMessage", status=200)
        assert (await world.texts())[-1] == "from the answer"
        assert (await world.bot("getWebhookInfo"))["result"]["url"]

    play(scenario)


def test_an_answer_that_is_no_text_calls_no_method(play, caplog):
    gc.collect()
    caplog.clear()

    async def scenario(world):
        news = await world.live_events()
        bodies = iter([b'{"method": "sendMessage", "chat_id": 5000000001, "text": "\\ud83d"}', b""])
        world.endpoint.telegram = lambda got: web.Response(body=next(bodies), content_type="application/json")
        await world.platforms.register()
        await world.say("one")
        last = await world.say("two")
        await news.until("delivery", update_id=last["update_id"], state="delivered")
        assert await world.texts() == ["one", "two"]

    play(scenario)
    gc.collect()
    assert "exception was never retrieved" not in caplog.text


def test_updates_that_expired_while_the_emulator_was_off_are_not_delivered(play):
    async def scenario(world):
        old = await world.say("yesterday")
        await world.platforms.stop()
        world.clock.advance(24 * HOUR_MS + 1)
        await world.start()
        new = await world.say("today")
        await world.platforms.register()
        await world.endpoint.wait(1)
        assert texts(world) == ["today"]
        assert (await world.delivery(old["update_id"]))["state"] == "dropped"
        assert (await world.delivery(new["update_id"]))["state"] != "dropped"

    play(scenario)


def test_a_restart_keeps_the_conversation_and_undelivered_updates(play):
    async def scenario(world):
        world.endpoint.telegram = lambda got: web.Response(status=503)
        await world.platforms.register()
        first = await world.say("before")
        await world.clock.asleep()
        env = world.env
        await world.restart()
        world.endpoint.telegram = lambda got: web.Response()
        world.endpoint.got.clear()
        await world.platforms.register()
        second = await world.say("after")
        await world.endpoint.wait(2)

        assert texts(world) == ["before", "after"]
        assert second["update_id"] == first["update_id"] + 1
        assert await world.texts() == ["before", "after"]
        same = ("TELEGRAM_BOT_TOKEN", "TELEGRAM_WEBHOOK_SECRET", "DISCORD_PUBLIC_KEY", "DISCORD_APPLICATION_ID")
        assert [world.env[key] for key in same] == [env[key] for key in same]

    play(scenario)


def test_nothing_is_delivered_before_a_webhook_is_set(play):
    async def scenario(world):
        await world.say("early")
        assert (await world.bot("getWebhookInfo"))["result"]["pending_update_count"] == 1
        await world.platforms.register()
        await world.endpoint.wait(1)
        assert texts(world) == ["early"]

    play(scenario)


def test_a_delivered_update_can_be_delivered_again_with_its_id(play):
    async def scenario(world):
        await world.platforms.register()
        said = await world.say("once")
        await world.endpoint.wait(1)
        news = await world.live_events()
        if (await world.delivery(said["update_id"]))["state"] == "pending":
            await news.until("delivery", state="delivered")
        await world.do(f"/control/telegram/updates/{said['update_id']}/redeliver")
        first, second = await world.endpoint.wait(2)
        assert first.body == second.body

    play(scenario)


def test_a_recorded_update_is_delivered_unchanged(play):
    async def scenario(world):
        await world.platforms.register()
        update = {"update_id": 42, "message": {"message_id": 7, "chat": {"id": 9}, "strange": [1, None]}}
        await world.do("/control/telegram/updates", update)
        (got,) = await world.endpoint.wait(1)
        assert got.body == update

    play(scenario)


def test_a_recorded_press_belongs_to_the_chat_of_its_message(play):
    async def scenario(world):
        press = {"id": "7", "from": {"id": int(ANA)}, "message": {"message_id": 1, "chat": {"id": int(GROUP)}}}
        update_id = (await world.do("/control/telegram/updates", {"callback_query": press}))["update_id"]
        assert (await world.delivery(update_id))["chat"] == GROUP

    play(scenario)


def test_a_recorded_update_with_a_high_id_prunes_no_others(play):
    async def scenario(world):
        news = await world.live_events()
        await world.platforms.register()
        said = await world.say("hello")
        await news.until("delivery", update_id=said["update_id"], state="delivered")
        await world.do("/control/telegram/updates", {"update_id": 900_000_000, "message": {"chat": {"id": 9}}})
        rows = (await world.see("/control/telegram/webhook"))["deliveries"]
        assert [row["update_id"] for row in rows] == [said["update_id"], 900_000_000]

    play(scenario)


def test_the_last_updates_are_kept_and_old_ones_pruned(tmp_path):
    store = PlatformStore(tmp_path / "platforms.db")
    queue = UpdateQueue(store, EventBus(), SystemClock())
    for number in range(1, KEEP_UPDATES + 500):
        queue.add(number, "message", {}, chat=ANA, person=None, message=None, now_ms=number)
    queue.take(offset=KEEP_UPDATES + 500, limit=1)
    queue.add(10_000_000, "message", {}, chat=ANA, person=None, message=None, now_ms=10_000)
    kept = [row["update_id"] for row in queue.deliveries(limit=10_000)]
    assert kept == [*range(501, KEEP_UPDATES + 500), 10_000_000]
    store.close()


def test_kinds_that_the_bot_did_not_ask_for_are_not_queued(play):
    async def scenario(world):
        await world.platforms.register()
        await world.bot("setWebhook", url=world.config.webhook_urls["telegram"], allowed_updates=["message"])
        world.clock.advance(1000)
        await world.bot("setWebhook", url=world.config.webhook_urls["telegram"], allowed_updates=["message"])
        said = await world.say("hello")
        changed = await world.do(f"/control/telegram/chats/{ANA}/messages/{said['message_id']}/edit", {"text": "hi"})
        assert changed["update_id"] is None

    play(scenario)


def test_a_button_press_does_not_wait_for_messages_of_the_chat(play):
    async def scenario(world):
        world.endpoint.telegram = lambda got: web.Response(status=503 if "message" in got.body else 200)
        await world.say("start")
        keyboard = {"inline_keyboard": [[{"text": "Yes", "callback_data": "y"}]]}
        sent = await world.bot("sendMessage", chat_id=int(ANA), text="?", reply_markup=keyboard)
        await world.platforms.register()
        await world.clock.asleep()
        message = sent["result"]["message_id"]
        await world.do(f"/control/telegram/chats/{ANA}/messages/{message}/press", {"person": ANA, "data": "y"})
        got = (await world.endpoint.wait(3))[-1].body["callback_query"]
        assert (got["data"], got["message"]["message_id"]) == ("y", message)
        assert (await world.bot("answerCallbackQuery", callback_query_id=got["id"], text="ok"))["ok"]
        world.clock.advance(151_000)
        late = await world.bot("answerCallbackQuery", callback_query_id=got["id"])
        assert late["description"].startswith("Bad Request: query is too old")

    play(scenario)


def test_a_block_is_an_update_and_ends_sends(play):
    async def scenario(world):
        await world.platforms.register()
        await world.say("hello")
        await world.do(f"/control/telegram/chats/{ANA}/block", {"blocked": True})
        got = (await world.endpoint.wait(2))[-1].body["my_chat_member"]
        assert got["new_chat_member"]["status"] == "kicked"
        refused = await world.bot("sendMessage", chat_id=int(ANA), text="hi")
        assert (refused["error_code"], refused["description"]) == (403, "Forbidden: bot was blocked by the user")

    play(scenario)


def test_privacy_mode_hides_messages_that_do_not_address_the_bot(play):
    async def scenario(world):
        await world.platforms.register()
        assert (await world.say("lunch?", chat=GROUP))["update_id"] is None
        assert (await world.say("/help@other_bot", chat=GROUP))["update_id"] is None
        assert (await world.say("/help@Postroom_bot", chat=GROUP))["update_id"] is not None
        sent = await world.bot("sendMessage", chat_id=int(GROUP), text="yes?")
        reply = await world.say("pizza", chat=GROUP, reply_to=str(sent["result"]["message_id"]))
        assert reply["update_id"] is not None
        got = (await world.endpoint.wait(2))[-1].body["message"]
        assert got["reply_to_message"]["text"] == "yes?"
        assert not (await world.bot("getMe"))["result"]["can_read_all_group_messages"]

    play(scenario, group_privacy=True)
