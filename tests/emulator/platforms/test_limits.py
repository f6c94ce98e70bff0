"""A load test switches the limits off, also for the next run."""

GROUP, CHANNEL = -4001002003, "1290000000000000200"


def test_the_limits_are_switched_off_and_on(play):
    async def scenario(world):
        write = lambda: world.bot("sendMessage", chat_id=GROUP, text="x")  # noqa: E731
        post = lambda: world.as_bot("POST", f"/channels/{CHANNEL}/messages", {"content": "x"})  # noqa: E731
        assert await world.do("/control/limits", {"on": False}) == {"limits": "off"}
        assert all([(await write())["ok"] for _ in range(40)])
        await world.restart()
        assert all([(await write())["ok"] for _ in range(40)])
        assert [(await post())[0] for _ in range(8)] == [200] * 8
        await world.do("/control/limits", {"on": True})
        assert not all([(await write())["ok"] for _ in range(21)])
        assert 429 in [(await post())[0] for _ in range(6)]

    play(scenario)
