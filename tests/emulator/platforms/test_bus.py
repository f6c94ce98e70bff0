"""Live events: a reader whose connection was cut goes on where it was."""

from emulator.platforms.bus import KEEP, EventBus


def test_a_reader_gets_what_came_after_its_mark():
    bus = EventBus()
    bus.publish("notice", {"text": "one"})
    mark = bus.mark()
    bus.publish("notice", {"text": "two"})
    bus.publish("notice", {"text": "three"})
    assert [event.data["text"] for event in bus.missed(mark)] == ["two", "three"]
    assert bus.missed(bus.mark()) == []


def test_a_mark_of_another_run_or_too_old_or_malformed_is_told():
    bus = EventBus()
    first = bus.mark()
    for number in range(KEEP):
        bus.publish("notice", {"text": str(number)})
    assert len(bus.missed(first)) == KEEP
    bus.publish("notice", {"text": "one more"})
    name = first.partition("-")[0]
    for mark in (first, EventBus().mark(), f"{name}-{KEEP + 5}", f"{name}-x", "", "-"):
        assert bus.missed(mark) is None


def test_a_stream_goes_on_after_a_cut_and_says_when_it_cannot(play):
    async def scenario(world):
        boot = await world.see("/chat/telegram/chats/5000000001")
        sent = await world.do("/chat/telegram/say", {"person": "5000000001", "text": "while nobody listened"})
        news = await world.live_events(f"?after={boot['mark']}")
        assert (await news.until("message"))["id"] == sent["message_id"]
        resumed = await world.live_events(headers={"Last-Event-ID": boot["mark"]})
        assert (await resumed.until("message"))["text"] == "while nobody listened"
        assert await (await world.live_events("?after=another-7")).until("reset") == {}

    play(scenario)
