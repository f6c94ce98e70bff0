"""Calls are counted so that the platform never counts more of them within a window, wherever it counts each."""

from shared.channels.telegram import limits as telegram
from shared.queue.platforms.send_room import SendRoom

NOW = 1_700_000_000_000


class Clock:
    def __init__(self):
        self.at_ms = NOW

    def now_ms(self):
        return self.at_ms


def call(chat, method="sendMessage", **body):
    return telegram.scopes_of("telegram", method, {"chat_id": chat, **body})


def test_a_call_counts_from_before_it_leaves_until_the_window_after_its_answer():
    clock = Clock()
    room = SendRoom(clock.now_ms)
    calls = [call(7)] * 5
    assert [room.enter(each) for each in calls] == [None] * 5
    clock.at_ms += 9_000  # no answer so far
    assert room.enter(call(7)) == clock.at_ms + 5_000
    room.leave(call(7))
    assert room.enter(call(7)) == clock.at_ms + 5_000
    clock.at_ms += 4_999
    assert room.enter(call(7)) == clock.at_ms + 1
    clock.at_ms += 1
    assert room.enter(call(7)) is None


def test_typing_and_drafts_count_nothing_and_an_album_counts_its_files():
    room = SendRoom(Clock().now_ms)
    for method in ("sendChatAction", "sendMessageDraft", "getMe"):
        assert [room.enter(call(7, method)) for _ in range(40)] == [None] * 40
    album = call(7, "sendMediaGroup", media=[{}] * 10)
    assert room.enter(album) is None
    room.leave(album)
    assert room.used("telegram", "7") == 10
    assert room.left("telegram") == 20


def test_a_reserved_send_counts_once():
    room = SendRoom(Clock().now_ms)
    room.reserve("telegram", "7")
    assert room.left("telegram") == 29
    assert room.enter(call(7)) is None
    assert room.left("telegram") == 29
    room.leave(call(7))
    room.free("telegram", "7")
    assert (room.left("telegram"), room.used("telegram", "7")) == (29, 1)


def test_a_send_that_called_nothing_counts_nothing():
    room = SendRoom(Clock().now_ms)
    room.reserve("telegram", "7")
    room.free("telegram", "7")
    assert (room.left("telegram"), room.used("telegram", "7")) == (30, 0)


def test_a_clock_that_was_ahead_closes_nothing():
    clock = Clock()
    room = SendRoom(clock.now_ms)
    clock.at_ms += 3_600_000
    for _ in range(5):
        room.enter(call(7))
        room.leave(call(7))
    clock.at_ms = NOW
    assert room.opens_at("telegram", "7") is None


def test_a_channel_without_known_limits_has_room():
    assert SendRoom(Clock().now_ms).left("api") is None
