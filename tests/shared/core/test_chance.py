"""The one source of chance."""

import random
import re
from collections import Counter
from pathlib import Path

import pytest

from shared.core import chance

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def the_systems_own_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chance, "_draw", chance._draw)


def drawn() -> list[object]:
    return [
        chance.token_bytes(4), chance.token_hex(4), chance.token_urlsafe(4), chance.fraction(), chance.below(1000),
        chance.text("abc", 9),
    ]  # fmt: skip


def test_the_same_source_draws_the_same_again():
    chance.draw_from(random.Random(7).randbytes)
    first = drawn()
    chance.draw_from(random.Random(7).randbytes)
    assert drawn() == first


def test_without_another_source_nothing_is_drawn_twice():
    assert drawn() != drawn()
    assert len({chance.token_urlsafe(32) for _ in range(100)}) == 100


def test_what_is_drawn_has_its_form():
    assert len(chance.token_bytes(5)) == 5
    assert re.fullmatch(r"[0-9a-f]{10}", chance.token_hex(5))
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", chance.token_urlsafe(32))
    assert re.fullmatch(r"[xyz]{12}", chance.text("xyz", 12))


def test_each_number_is_as_likely_as_another():
    chance.draw_from(random.Random(1).randbytes)
    assert chance.below(1) == 0
    counts = Counter(chance.below(5) for _ in range(5000))
    assert set(counts) == set(range(5))
    assert all(850 < count < 1150 for count in counts.values())
    assert all(0 <= chance.below(2**31 - 1) < 2**31 - 1 for _ in range(100))
    fractions = [chance.fraction() for _ in range(1000)]
    assert 0 <= min(fractions) < 0.01
    assert 0.99 < max(fractions) < 1


def test_a_fraction_reaches_neither_below_0_nor_1():
    chance.draw_from(lambda size: b"\0" * size)
    assert chance.fraction() == 0
    chance.draw_from(lambda size: b"\xff" * size)
    assert 0.999 < chance.fraction() < 1


def test_nothing_of_the_product_draws_elsewhere_or_gives_another_source():
    elsewhere = re.compile(r"\b(secrets|random)\.\w+\(|\bos\.urandom\(|\buuid4\(|^from (secrets|random|nanoid) ", re.M)
    given = re.compile(r"\b(chance\.draw_from|group_commit\.drive_by|clock\.run_on)\(")
    files = [path for room in ("shared", "functions") for path in (ROOT / room).rglob("*.py")]
    assert [path for path in files if elsewhere.search(path.read_text())] == []
    files += [path for room in ("infra", "emulator", "spark_jobs") for path in (ROOT / room).rglob("*.py")]
    assert [path for path in files if given.search(path.read_text())] == []
