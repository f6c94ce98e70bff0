"""Where connections become too many, one whose client owes a request is closed, and no other."""

from collections import Counter

from emulator.base.connection_room import ConnectionRoom


class Room:
    """A room for connections that are letters, what it closed, and what it reported."""

    def __init__(self, limit: int) -> None:
        self.closed: list[str] = []
        self.told: list[Counter[str]] = []
        self.room: ConnectionRoom[str] = ConnectionRoom(limit, self.closed.append, self.told.append)


def test_the_longest_silent_makes_room() -> None:
    one = Room(2)
    assert [one.room.enter(new) for new in "abc"] == [True] * 3
    assert one.closed == ["a"]


def test_one_with_a_request_under_way_stays_and_is_silent_again_after_its_answer() -> None:
    one = Room(2)
    for new in "ab":
        one.room.enter(new)
        one.room.hear(new)
    assert not one.room.enter("c")
    one.room.listen("b")
    assert one.room.enter("d")
    assert one.closed == ["b"]


def test_one_that_goes_first_goes_before_one_that_was_silent_for_longer() -> None:
    one = Room(2)
    for new in "ab":
        one.room.enter(new)
    one.room.hear("b")
    one.room.listen("b", goes_first=True)
    assert one.room.enter("c")
    assert one.closed == ["b"]


def test_one_that_has_ended_makes_room_and_is_never_silent() -> None:
    one = Room(1)
    one.room.enter("a")
    one.room.leave("a")
    one.room.listen("a")
    assert one.room.enter("b")
    one.room.hear("b")
    assert not one.room.enter("c")
    assert one.closed == []


def test_what_was_closed_is_reported_at_once_and_then_not_again_so_soon() -> None:
    one = Room(1)
    for new in "abc":
        one.room.enter(new)
    one.room.hear("c")
    one.room.enter("d")
    one.room.count("with a head that is too large, refused")
    assert one.told == [Counter({"silent, closed for others": 1})]
