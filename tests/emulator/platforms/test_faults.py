"""Which calls a fault on order lets fail."""

import pytest

from emulator.platforms.faults import Fault, Faults, as_facts
from tests.emulator.platforms.conftest import ManualClock


def order(clock: ManualClock, **given: object) -> Faults:
    faults = Faults(clock)
    faults.add(Fault.parse({"kind": "status", **given}))
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
        ({"for_ms": 1000}, "xxxxxx"),
        ({"for_ms": 1000, "times": 4}, "xxxx.."),
        ({"method": "SENDMESSAGE"}, "x....."),
        ({"method": "getMe"}, "......"),
        ({"chat": "2"}, "......"),
    ],
)
def test_so_many_calls_fail_of_those_that_match(given: dict[str, object], calls: str) -> None:
    assert failed(order(ManualClock(), **given), 6) == calls


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
    second = faults.add(Fault.parse({"kind": "drop"}))
    faults.add(Fault.parse({"kind": "delay"}))

    assert faults.lift(second.id) == 1
    assert [fault.kind for fault in faults.standing()] == ["status", "delay"]
    assert faults.lift() == 2
    assert failed(faults, 3) == "..."


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"kind": "status", "status": 429}, "answers 429 to any call, once more"),
        ({"kind": "delay", "method": "getMe", "every": 5}, "answers after 1000 ms to getme, one time in 5"),
        (
            {"kind": "drop", "chat": "7", "for_ms": 60_000},
            "does nothing and gives no answer to any call in chat 7, for 1 min",
        ),
    ],
)
def test_a_fault_is_told_in_words(given: dict[str, object], sentence: str) -> None:
    assert as_facts(Faults(ManualClock()).add(Fault.parse(given)))["sentence"] == sentence


@pytest.mark.parametrize(
    "given",
    [{"kind": "melt"}, {"kind": "drop", "often": 1}, {"kind": "drop", "every": 0}, {"kind": "drop", "for_ms": 0}],
)
def test_what_is_no_fault_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"kind must|unknown keys|at least 1"):
        Fault.parse(given)
