"""Which calls a fault on order lets fail."""

import pytest

from emulator.base.faults import TARGETS, Fault, Faults, as_facts
from tests.emulator.platforms.conftest import ManualClock


def order(clock: ManualClock, target: str = "telegram", *, chances: str = "", **given: object) -> Faults:
    """One fault. *chances*: a digit for each call that may fail by chance, of tenths."""
    drawn = (int(digit) / 10 for digit in chances)
    faults = Faults(target, clock.now_ms, chance=lambda: next(drawn))
    faults.add(Fault.parse(target, {"kind": "status", **given}))
    return faults


def failed(faults: Faults, count: int, method: str = "sendMessage", chat: str = "1") -> str:
    return "".join("x" if faults.take(method, chat) else "." for _ in range(count))


@pytest.mark.parametrize(
    ("given", "calls"),
    [
        ({}, "x....."),
        ({"times": 2}, "xx...."),
        ({"every": 3}, "..x..x"),
        ({"every": 2, "times": 1}, ".x...."),
        ({"rate": 0.3, "chances": "290354"}, "x.x..."),
        ({"rate": 1, "times": 2, "chances": "99"}, "xx...."),
        ({"for_ms": 1000}, "xxxxxx"),
        ({"for_ms": 1000, "times": 4}, "xxxx.."),
        ({"method": "SENDMESSAGE"}, "x....."),
        ({"method": "getMe"}, "......"),
        ({"chat": "2"}, "......"),
        ({"target": "bucket"}, "xxxxxx"),
        ({"target": "bucket", "times": 1}, "x....."),
    ],
)
def test_so_many_calls_fail_of_those_that_match(given: dict[str, object], calls: str) -> None:
    assert failed(order(ManualClock(), **given), 6) == calls  # type: ignore[arg-type]


def test_a_fault_with_a_duration_is_over_then() -> None:
    clock = ManualClock()
    faults = order(clock, for_ms=1000)
    clock.now += 999
    assert failed(faults, 1) == "x"
    clock.now += 1
    assert failed(faults, 1) == "."
    assert faults.standing() == []


def test_one_fault_is_lifted_by_its_id_and_all_without() -> None:
    faults = order(ManualClock(), every=1)
    second = faults.add(Fault.parse("telegram", {"kind": "drop"}))
    faults.add(Fault.parse("telegram", {"kind": "delay"}))

    assert faults.lift(second.id) == 1
    assert [fault.kind for fault in faults.standing()] == ["status", "delay"]
    assert faults.lift() == 2
    assert failed(faults, 3) == "..."


def test_another_process_keeps_what_is_left_of_a_fault_that_it_knows() -> None:
    clock = ManualClock()
    book, other = order(clock, "bucket", times=3), Faults("bucket", clock.now_ms)
    other.follow([Fault.from_facts(as_facts(fault)) for fault in book.standing()])
    assert failed(other, 2) == "xx"
    book.add(Fault.parse("bucket", {"kind": "status", "times": 1}))
    other.follow([Fault.from_facts(as_facts(fault)) for fault in book.standing()])
    assert failed(other, 3) == "xx."


def test_each_change_is_told() -> None:
    told: list[str] = []
    faults = Faults("telegram", ManualClock().now_ms, changed=lambda: told.append("x"))
    fault = faults.add(Fault.parse("telegram", {"kind": "drop", "times": 2}))
    assert told == ["x"]
    faults.take("getMe")
    assert told == ["x", "x"]
    faults.lift(fault.id)
    assert faults.lift() == 0
    assert told == ["x", "x", "x"]


@pytest.mark.parametrize(
    ("target", "given", "sentence"),
    [
        ("telegram", {"kind": "status", "status": 429}, "answers 429 to any call, once more"),
        ("telegram", {"kind": "delay", "method": "getMe", "every": 5}, "answers after 1000 ms to getme, one time in 5"),
        (
            "telegram",
            {"kind": "drop", "chat": "7", "for_ms": 60_000},
            "does nothing and gives no answer to any call in chat 7, for 1 min",
        ),
        ("bucket", {"kind": "status"}, "answers 503 to any call"),
        ("disk", {"kind": "full", "every": 1}, "has no room for a write"),
        ("bucket", {"kind": "cut", "method": "GET", "rate": 0.3}, "ends its answer in the middle to get, by chance 30"),
        ("network", {"kind": "slow", "delay_ms": 200}, "is late by 200 ms"),
    ],
)
def test_a_fault_is_told_in_words(target: str, given: dict[str, object], sentence: str) -> None:
    told = as_facts(Faults(target, ManualClock().now_ms).add(Fault.parse(target, given)))["sentence"]
    assert told == sentence + (" times in 100" if "by chance" in sentence else "")


@pytest.mark.parametrize(
    ("target", "given"),
    [
        ("telegram", {"kind": "melt"}),
        ("telegram", {"kind": "drop", "often": 1}),
        ("telegram", {"kind": "drop", "every": 0}),
        ("telegram", {"kind": "drop", "times": 0}),
        ("telegram", {"kind": "drop", "for_ms": 0}),
        ("telegram", {"kind": "delay", "delay_ms": -1}),
        ("telegram", {"kind": "status", "retry_after": -1}),
        ("telegram", {"kind": "drop", "rate": 0}),
        ("telegram", {"kind": "drop", "rate": 0.5, "every": 2}),
        ("telegram", {"kind": "cut"}),
        ("bucket", {"kind": "drop", "chat": "1"}),
        ("network", {"kind": "slow", "method": "getMe"}),
        ("disk", {"kind": "full", "every": 2}),
    ],
)
def test_what_is_no_fault_is_refused(target: str, given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"must be one of|unknown keys|at least [01]|at most 1|has no"):
        Fault.parse(target, given)


def test_each_kind_belongs_to_a_target() -> None:
    from emulator.base.faults import KINDS

    assert set(KINDS) == {kind for each in TARGETS.values() for kind in each.kinds}
