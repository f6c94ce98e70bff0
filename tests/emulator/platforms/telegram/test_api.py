"""The fake Bot API: its rules, limits and error texts."""

import asyncio
import io

import aiohttp
import pytest
from yarl import URL

from emulator.platforms import RateLimit

ANA, GROUP = 5000000001, -4001002003


def refusal(answer):
    return answer["error_code"], answer["description"]


def url(world, method):
    return f"{world.env['TELEGRAM_API_BASE']}/bot{world.env['TELEGRAM_BOT_TOKEN']}/{method}"


def test_the_envelope_the_token_and_the_path(play):
    async def scenario(world):
        me = await world.bot("GETME")
        assert me["ok"]
        assert me["result"]["username"] == world.env["TELEGRAM_BOT_USERNAME"]
        base = world.env["TELEGRAM_API_BASE"]
        for path, status in (("/bot123:wrong/getMe", 401), ("/bot-no-token-/getMe", 404)):
            async with world.session.get(base + path) as response:
                assert response.status == status
                assert (await response.json())["error_code"] == status
        quoted = URL(f"{base}/bot{world.env['TELEGRAM_BOT_TOKEN'].replace(':', '%3A')}/getMe", encoded=True)
        async with world.session.get(quoted) as response:  # the form of some clients
            assert response.status == 200

    play(scenario)


def test_parameters_come_from_json_forms_multipart_and_the_query_string(play):
    async def scenario(world):
        await world.say("hello")
        reply = '{"message_id": 1}'
        multipart = aiohttp.FormData({"chat_id": str(ANA), "text": "multipart", "reply_parameters": reply})
        multipart.add_field("unused", b"x", filename="x.bin")
        for sent in (
            {"data": {"chat_id": str(ANA), "text": "form", "reply_parameters": reply}},
            {"data": multipart},
            {"params": {"chat_id": str(ANA), "text": "query", "reply_parameters": reply}},
        ):
            async with world.session.post(url(world, "sendMessage"), **sent) as response:
                answer = await response.json()
                assert answer["result"]["reply_to_message"]["text"] == "hello", answer
        assert await world.texts() == ["hello", "form", "multipart", "query"]

    play(scenario)


def test_unreadable_bodies_are_refused(play):
    async def scenario(world):
        headers = {"Content-Type": "application/json"}
        for body, status in (
            (b"{", 400),
            (b"[]", 400),
            (b'{"text": "\\ud83d"}', 400),
            (io.BytesIO(b"x" * (1 << 20) + b"x"), 413),
        ):
            async with world.session.post(url(world, "sendMessage"), data=body, headers=headers) as response:
                assert response.status == status

    play(scenario)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("getUpdates", {"offset": float("inf")}),
        ("getUpdates", {"offset": 2**70}),
        ("setWebhook", {"url": "http://["}),
        ("setMessageReaction", {"chat_id": GROUP, "message_id": 1, "reaction": [{"type": "emoji", "emoji": ["👀"]}]}),
    ],
)
def test_invalid_values_are_refused_and_do_not_break_the_fake(play, method, params):
    async def scenario(world):
        await world.say("hello", chat=str(GROUP))
        assert (await world.bot(method, **params))["error_code"] == 400

    play(scenario)


def test_text_is_limited_before_and_after_parsing(play):
    async def scenario(world):
        await world.say("hello")
        send = lambda text, **more: world.bot("sendMessage", chat_id=ANA, text=text, **more)  # noqa: E731
        assert (await send("😀" * 4096))["ok"]
        assert refusal(await send("a" * 4097)) == (400, "Bad Request: message is too long")
        assert refusal(await send("é" * 16_385)) == (400, "Bad Request: text is too long")
        assert (await send("<b>" + "a" * 4096 + "</b>", parse_mode="HTML"))["ok"]
        for nothing in ("", "  \n ", "<b> </b>"):
            assert refusal(await send(nothing, parse_mode="HTML")) == (400, "Bad Request: message text is empty")

    play(scenario)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<b>x", 'Can\'t find end tag corresponding to start tag "b"'),
        ("é <foo>x</foo>", 'Unsupported start tag "foo" at byte offset 3'),
        ("1 < 2", 'Unsupported start tag "" at byte offset 2'),
        ("<b>x</i>", 'Unmatched end tag at byte offset 4, expected "</b>", found "</i>"'),
        ("</b>", "Unexpected end tag at byte offset 0"),
        ("<span>x</span>", 'Tag "span" must have class "tg-spoiler" at byte offset 0'),
    ],
)
def test_html_is_refused_in_telegrams_words(play, text, why):
    async def scenario(world):
        await world.say("hello")
        answer = await world.bot("sendMessage", chat_id=ANA, text=text, parse_mode="HTML")
        assert refusal(answer) == (400, f"Bad Request: can't parse entities: {why}")

    play(scenario)


def test_markup_becomes_entities_with_utf16_offsets(play):
    async def scenario(world):
        await world.say("hello")
        text = (
            '  😀 <b>bold <i>both</i></b> <a href="https://example.com/x">link</a>'
            ' <pre><code class="language-py">1</code></pre>\n'
        )
        result = (await world.bot("sendMessage", chat_id=ANA, text=text, parse_mode="html"))["result"]
        assert result["text"] == "😀 bold both link 1"
        assert result["entities"] == [
            {"type": "bold", "offset": 3, "length": 9},
            {"type": "italic", "offset": 8, "length": 4},
            {"type": "text_link", "offset": 13, "length": 4, "url": "https://example.com/x"},
            {"type": "pre", "offset": 18, "length": 1, "language": "py"},
        ]
        assert refusal(await world.bot("sendMessage", chat_id=ANA, text="x", parse_mode="BB")) == (
            400,
            "Bad Request: unsupported parse_mode",
        )

    play(scenario)


def test_a_bot_cannot_write_first(play):
    async def scenario(world):
        answer = await world.bot("sendMessage", chat_id=ANA, text="hi")
        assert refusal(answer) == (400, "Bad Request: chat not found")
        assert refusal(await world.bot("sendMessage", text="hi")) == (400, "Bad Request: chat_id is empty")
        assert (await world.bot("sendMessage", chat_id=GROUP, text="hi"))["ok"]

    play(scenario)


def test_topics_and_the_general_topic_without_an_id(play):
    async def scenario(world):
        await world.platforms.register()
        await world.say("in topic", chat=str(GROUP), thread=17)
        (got,) = await world.endpoint.wait(1)
        assert (got.body["message"]["message_thread_id"], got.body["message"]["is_topic_message"]) == (17, True)
        assert (await world.bot("sendMessage", chat_id=GROUP, text="a", message_thread_id=17))["ok"]
        for thread in (1, 18):
            answer = await world.bot("sendMessage", chat_id=GROUP, text="a", message_thread_id=thread)
            assert refusal(answer) == (400, "Bad Request: message thread not found")

    play(scenario)


def test_nobody_but_admins_writes_in_a_closed_topic(play):
    async def scenario(world):
        await world.platforms.register()
        await world.say("in topic", chat=str(GROUP), thread=17)
        await world.do(f"/control/telegram/chats/{GROUP}/topics/17/close")
        _, closed = await world.endpoint.wait(2)
        assert closed.body["message"]["forum_topic_closed"] == {}
        assert closed.body["message"]["message_thread_id"] == 17
        answer = await world.bot("sendMessage", chat_id=GROUP, text="a", message_thread_id=17)
        assert refusal(answer) == (400, "Bad Request: TOPIC_CLOSED")
        assert (await world.bot("sendMessage", chat_id=GROUP, text="in General"))["ok"]
        async with world.session.post(
            f"{world.platforms.url}/control/telegram/chats/{GROUP}/topics/18/close"
        ) as refused:
            assert refused.status == 400

    play(scenario)


def test_a_reply_needs_its_message_unless_told_otherwise(play):
    async def scenario(world):
        await world.say("hello")
        gone = {"message_id": 99}
        answer = await world.bot("sendMessage", chat_id=ANA, text="a", reply_parameters=gone)
        assert refusal(answer) == (400, "Bad Request: message to be replied not found")
        kind = {**gone, "allow_sending_without_reply": True}
        answer = await world.bot("sendMessage", chat_id=ANA, text="a", reply_parameters=kind)
        assert "reply_to_message" not in answer["result"]

    play(scenario)


def test_edits_and_reactions(play):
    async def scenario(world):
        await world.say("hello")
        sent = (await world.bot("sendMessage", chat_id=ANA, text="one"))["result"]["message_id"]
        edited = await world.bot("editMessageText", chat_id=ANA, message_id=sent, text="two")
        assert (edited["result"]["text"], "edit_date" in edited["result"]) == ("two", True)
        again = await world.bot("editMessageText", chat_id=ANA, message_id=sent, text="two")
        assert again["description"].startswith("Bad Request: message is not modified")
        for message, why in ((99, "message to edit not found"), (1, "message can't be edited")):
            answer = await world.bot("editMessageText", chat_id=ANA, message_id=message, text="x")
            assert refusal(answer) == (400, f"Bad Request: {why}")
        react = lambda *emoji: world.bot(  # noqa: E731
            "setMessageReaction", chat_id=ANA, message_id=1, reaction=[{"type": "emoji", "emoji": e} for e in emoji]
        )
        assert (await react("👀"))["ok"]
        assert refusal(await react("🪿")) == (400, "Bad Request: REACTION_INVALID")
        assert refusal(await react("👀", "👍")) == (400, "Bad Request: REACTIONS_TOO_MANY")
        assert (await world.bot("deleteMessage", chat_id=ANA, message_id=sent))["ok"]
        assert await world.texts() == ["hello"]

    play(scenario)


def test_a_bot_deletes_messages_of_people_in_a_private_chat_only(play):
    """Source: https://core.telegram.org/bots/api#deletemessage; in a group, the bot needs to be an administrator."""

    async def scenario(world):
        await world.say("oops")
        await world.say("oops", chat=str(GROUP))
        assert (await world.bot("deleteMessage", chat_id=ANA, message_id=1))["ok"]
        assert await world.texts() == []
        answer = await world.bot("deleteMessage", chat_id=GROUP, message_id=1)
        assert refusal(answer) == (400, "Bad Request: message can't be deleted")
        answer = await world.bot("deleteMessage", chat_id=GROUP, message_id=9)
        assert refusal(answer) == (400, "Bad Request: message to delete not found")

    play(scenario)


def test_typing_is_published_and_an_unknown_action_refused(play):
    async def scenario(world):
        await world.say("hello")
        news = await world.live_events()
        assert (await world.bot("sendChatAction", chat_id=ANA, action="typing"))["ok"]
        assert (await news.until("typing"))["for_ms"] == 5000
        answer = await world.bot("sendChatAction", chat_id=ANA, action="dancing")
        assert refusal(answer) == (400, "Bad Request: wrong parameter action in request")

    play(scenario)


def test_the_rate_limit_answers_the_wait_in_body_and_header(play):
    async def scenario(world):
        await world.say("hello")
        send = lambda: world.bot("sendMessage", chat_id=ANA, text="x")  # noqa: E731
        assert [(await send())["ok"] for _ in range(3)] == [True, True, False]
        answer = await send()
        assert refusal(answer) == (429, "Too Many Requests: retry after 3")
        assert (answer["parameters"], answer["headers"]["Retry-After"]) == ({"retry_after": 3}, "3")
        world.clock.advance(3000)
        assert (await send())["ok"]

    play(scenario, rate_limits={"telegram": RateLimit(2, 3000)})


def test_set_webhook_checks_its_parameters(play):
    async def scenario(world):
        hook = world.config.webhook_urls["telegram"]
        assert refusal(await world.bot("setWebhook", url="ftp://x")) == (
            400,
            "Bad Request: bad webhook: An HTTPS URL must be provided for webhook",
        )
        assert refusal(await world.bot("setWebhook", url=hook)) == (429, "Too Many Requests: retry after 1")
        for secret, why in (("no spaces", "contains unallowed characters"), ("a" * 257, "is too long")):
            world.clock.advance(1000)
            answer = await world.bot("setWebhook", url=hook, secret_token=secret)
            assert refusal(answer) == (400, f"Bad Request: secret token {why}")
        descriptions = []
        for _ in range(2):
            world.clock.advance(1000)
            descriptions.append(
                (await world.bot("setWebhook", url=hook, allowed_updates=["message", "news"]))["description"]
            )
        assert descriptions == ["Webhook was set", "Webhook is already set"]
        assert (await world.bot("getWebhookInfo"))["result"]["allowed_updates"] == ["message"]
        assert refusal(await world.bot("getUpdates"))[0] == 409
        assert (await world.bot("deleteWebhook"))["description"] == "Webhook was deleted"
        said = await world.say("polled")
        (update,) = (await world.bot("getUpdates"))["result"]
        assert update["update_id"] == said["update_id"]
        assert (await world.bot("getUpdates", offset=update["update_id"] + 1))["result"] == []

    play(scenario)


def test_injected_faults(play):
    async def scenario(world):
        await world.say("hello")
        send = lambda: world.bot("sendMessage", chat_id=ANA, text="x")  # noqa: E731
        order = lambda **fault: world.do("/control/telegram/faults", {"method": "sendMessage", **fault})  # noqa: E731
        await order(kind="status", status=429, retry_after=7, times=2)
        assert [(await send()).get("parameters") for _ in range(3)] == [{"retry_after": 7}, {"retry_after": 7}, None]
        for kind, said in (("drop", 0), ("accept_then_drop", 1)):
            before = len(await world.texts())
            await order(kind=kind)
            with pytest.raises(aiohttp.ClientError):
                await send()
            assert len(await world.texts()) == before + said
        await order(kind="delay", delay_ms=4000)
        slow = asyncio.create_task(send())
        assert await world.clock.asleep() == 4000
        assert (await world.bot("getMe"))["ok"]
        world.clock.advance(4000)
        assert (await slow)["ok"]
        calls = (await world.see("/control/telegram/calls?method=sendmessage"))["calls"]
        assert [(call["status"], call["fault"]) for call in calls] == [
            (429, "status"),
            (429, "status"),
            (200, None),
            (0, "drop"),
            (200, "accept_then_drop"),
            (200, "delay"),
        ]
        async with world.session.post(
            world.platforms.url + "/control/telegram/faults", json={"kind": "melt"}
        ) as response:
            assert (response.status, (await response.json())["error"][:15]) == (400, "the kind of a f")

    play(scenario)


def test_the_log_of_calls_holds_no_token(play):
    async def scenario(world):
        await world.platforms.register()
        async with world.session.get(world.platforms.url + "/control/telegram/calls") as response:
            text = await response.text()
        assert "setWebhook" in text
        assert world.env["TELEGRAM_WEBHOOK_SECRET"] not in text
        assert world.env["TELEGRAM_BOT_TOKEN"] not in text

    play(scenario)
