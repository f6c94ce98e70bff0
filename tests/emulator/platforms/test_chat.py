"""The server side of the chat page."""

import json
import re

import pytest

from tests.emulator.platforms.terminals import ANA, replying


@pytest.mark.parametrize("path", ["/chat", "/chat/", "/_emulator/chat", "/_emulator/chat/"])
def test_the_page_embeds_the_first_conversation_with_escaped_markup(play, path):
    async def scenario(world):
        await world.say("</script><script>alert(1)</script>")
        async with world.session.get(world.platforms.url + path) as response:
            page, policy = await response.text(), response.headers["Content-Security-Policy"]
        boot = re.search(r'<script type="application/json" id="boot">(.*?)</script>', page, re.DOTALL)[1]
        shown = json.loads(boot)["transcript"]["messages"]
        assert [message["text"] for message in shown] == ["</script><script>alert(1)</script>"]
        assert policy.startswith("default-src 'none'")
        assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", page)  # one file without external resources

    play(scenario)


def test_the_stream_has_messages_deliveries_calls_and_typing(play):
    async def scenario(world):
        replying(world, "pong")
        await world.platforms.register()
        news = await world.live_events()
        await world.do("/_emulator/chat/telegram/say", {"person": ANA, "chat": ANA, "text": "ping"})
        assert (await news.until("message"))["text"] == "ping"
        assert (await news.until("delivery", state="delivered"))["message"] == "1"
        reply = await news.until("message")
        assert (reply["text"], reply["author"]["name"], reply["author"]["is_bot"]) == ("pong", "Postroom", True)
        assert (await news.until("call"))["method"] == "sendMessage"

    play(scenario)


def test_stop_ends_open_streams(play):
    async def scenario(world):
        news = await world.live_events()
        await world.platforms.stop()
        await news.end()
        await world.start()

    play(scenario)


def test_requests_of_other_sites_are_refused(play):
    async def scenario(world):
        said = {"person": ANA, "text": "x"}
        for origin, status in (
            ("https://evil.example", 403),
            ("null", 403),
            ("http://127.0.0.1:8081", 403),
            (world.platforms.url, 201),
        ):
            async with world.session.post(
                world.platforms.url + "/chat/telegram/say", json=said, headers={"Origin": origin}
            ) as response:
                assert response.status == status

    play(scenario)


@pytest.mark.parametrize(
    ("path", "body", "status", "why"),
    [
        ("/chat/telegram/say", {"person": ANA}, 400, '"text" is missing'),
        ("/chat/telegram/say", {"person": ANA, "text": " "}, 400, "the text is empty"),
        ("/chat/telegram/say", {"person": "Ana", "text": "x"}, 400, "a person's id is a positive number"),
        ("/chat/telegram/say", {"person": ANA, "chat": "5000000002", "text": "x"}, 400, "Ana can't write in chat"),
        ("/chat/telegram/say", {"person": ANA, "text": "x" * 4097}, 400, "at most 4096"),
        ("/chat/discord/say", {"person": "1", "text": "x"}, 400, "there is no person with the id 1"),
        ("/control/telegram/chats/77/block", {}, 404, "there is no chat 77"),
        ("/control/telegram/updates", {"rumour": {}}, 400, "one known kind"),
        ("/control/discord/interactions/5/replay", {}, 400, "there is no interaction 5"),
        ("/control/nowhere", {}, 404, "Not Found"),
    ],
)
def test_a_refused_request_says_why(play, path, body, status, why):
    async def scenario(world):
        async with world.session.post(world.platforms.url + path, json=body) as response:
            answer = await response.json()
            assert response.status == status
            assert why in answer["error"]

    play(scenario)
