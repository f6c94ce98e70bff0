import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.db.access import rates
from shared.db.access.rates import Allowance, RateResult, Size
from shared.db.engine.connection import open_connection, rows, transaction
from tests.forks import race
from tests.support import NOW, column, plan

KEY = rates.key("sender", "telegram", "5")
MINUTE = 60_000
TAKE = """
from shared.db.access import rates
with transaction(conn):
    print(rates.take(conn, "k", per_minute=1, burst=5, now_ms=1).allowed)
"""


def take(conn, now_ms=NOW, key=KEY, per_minute=60, burst=3):
    with transaction(conn):
        return rates.take(conn, key, per_minute=per_minute, burst=burst, now_ms=now_ms)


ALLOWANCES = {
    "one each second": (60, 1, Allowance(1000, 1000)),
    "all of a minute at once": (120, 120, Allowance(500, MINUTE)),
    "what does not divide evenly": (700, 10, Allowance(86, 860)),
    "five in a quarter of an hour": (5 / 15, 5, Allowance(180_000, 900_000)),
    "a hundred an hour": (100 / 60, 100, Allowance(36_000, 3_600_000)),
    "more than one each millisecond": (1_000_000, 5, Allowance(1, 5)),
    "a burst of none is one": (60, 0, Allowance(1000, 1000)),
}


@pytest.mark.parametrize(("per_minute", "burst", "allowance"), ALLOWANCES.values(), ids=ALLOWANCES)
def test_a_limit_in_milliseconds(per_minute, burst, allowance):
    assert rates.allowance(per_minute, burst) == allowance


@pytest.mark.parametrize(
    ("one", "other"),
    [(("a", "b"), ("a,b",)), (("a", 'b","c'), ('a","b', "c")), (("a:b", "c"), ("a", "b:c")), (("a", ""), ("a",))],
)
def test_no_two_identities_have_one_key(one, other):
    assert rates.key(*one) != rates.key(*other)


# One each second, three at once: when they come, in ms, and whether each is let through.
CASES = {
    "a burst, and nothing beyond it": ([0, 0, 0, 0], "yyyn"),
    "one comes back each second": ([0, 0, 0, 999, 1000, 1001, 1999, 2000], "yyynynny"),
    "a steady second is always let through": ([1000 * n for n in range(9)], "y" * 9),
    "after a rest all are there": ([0, 0, 0, 3000, 3000, 3000, 3000], "yyyyyyn"),
    "after a short rest some are": ([0, 0, 0, 2000, 2000, 2000], "yyyyyn"),
    "a long rest gives one burst": ([0, 99_000, 99_000, 99_000, 99_000], "yyyyn"),
    "what is refused costs nothing": ([0, 0, 0, *[1] * 50, 1000], "yyy" + "n" * 50 + "y"),
}


@pytest.mark.parametrize(("instants", "outcome"), CASES.values(), ids=CASES)
def test_a_burst_is_let_through_and_then_one_at_a_time(conn, instants, outcome):
    assert "".join("y" if take(conn, NOW + at).allowed else "n" for at in instants) == outcome


@given(
    per_minute=st.integers(1, 600),
    burst=st.integers(1, 4),
    steps=st.lists(st.one_of(st.just(0), st.just(0), st.integers(0, 500), st.integers(0, 200_000)), max_size=60),
)
def test_it_behaves_like_a_token_bucket(fresh_database, per_minute, burst, steps):
    """Beside a bucket told plainly: so many tokens, which drip in at their interval and are at most *burst*."""
    interval, _ = rates.allowance(per_minute, burst)
    conn = open_connection(fresh_database)
    try:
        rows(conn, "BEGIN")
        now, drops = NOW, burst * interval
        for step in steps:
            now, drops = now + step, min(burst * interval, drops + step)
            has_one = drops >= interval
            assert rates.take(conn, "k", per_minute=per_minute, burst=burst, now_ms=now).allowed == has_one
            drops -= interval * has_one
    finally:
        rows(conn, "ROLLBACK")
        conn.close()


def test_each_key_has_its_own_bucket(conn):
    for _ in range(4):
        take(conn)
    assert not take(conn).allowed
    assert take(conn, key=rates.key("sender", "telegram", "6")).allowed
    assert take(conn, key=rates.key("sender", "discord", "5")).allowed


def test_the_first_refusal_of_each_minute_is_marked_and_says_when_to_continue(conn):
    for _ in range(3):
        assert take(conn, per_minute=1) == RateResult(allowed=True)
    assert take(conn, NOW + 10, per_minute=1) == RateResult(False, is_first_refusal=True, again_at=NOW + MINUTE)
    assert take(conn, NOW + 10, per_minute=1) == RateResult(False)
    assert take(conn, NOW + MINUTE - 1, per_minute=1) == RateResult(False)
    assert take(conn, NOW + MINUTE, per_minute=1) == RateResult(allowed=True)
    assert take(conn, NOW + MINUTE + 9, per_minute=1) == RateResult(False)
    assert take(conn, NOW + MINUTE + 10, per_minute=1) == RateResult(
        False, is_first_refusal=True, again_at=NOW + 2 * MINUTE
    )


def test_a_token_is_back_exactly_at_the_announced_instant(conn):
    for _ in range(3):
        take(conn, per_minute=7)
    again_at = take(conn, NOW + 1, per_minute=7).again_at
    assert not take(conn, again_at - 1, per_minute=7).allowed
    assert take(conn, again_at, per_minute=7).allowed


def test_a_later_refusal_writes_nothing(conn):
    for _ in range(4):
        take(conn)
    before = conn.total_changes()
    assert take(conn) == RateResult(False)
    assert conn.total_changes() == before


def test_a_bucket_of_a_higher_limit_or_of_an_earlier_release_is_never_emptier_than_empty(conn):
    rows(conn, "INSERT INTO rates (key, full_at) VALUES (?, ?)", (KEY, NOW + 86_400_000))
    assert take(conn) == RateResult(False, is_first_refusal=True, again_at=NOW + 1000)
    assert take(conn, NOW + 1000).allowed


BACK_MS = [1, 1500, 61_000, 86_400_000]


@pytest.mark.parametrize("back_ms", BACK_MS)
def test_a_clock_that_is_set_back_makes_no_bucket_emptier(conn, back_ms):
    take(conn)
    take(conn)
    assert [take(conn, NOW - back_ms).allowed for _ in range(2)] == [True, False]


@pytest.mark.parametrize("back_ms", BACK_MS)
def test_after_a_clock_was_set_back_a_token_comes_back_each_second(conn, back_ms):
    for _ in range(3):
        take(conn)
    found = [take(conn, NOW - back_ms + at).allowed for at in (0, 999, 1000, 1001, 2000)]
    assert found == [False, False, True, False, True]


@pytest.mark.parametrize("back_ms", BACK_MS)
def test_a_clock_that_is_set_back_makes_no_bucket_of_bytes_emptier(conn, back_ms):
    def send(amount, now_ms):
        with transaction(conn):
            size = Size(amount, per_minute=100)
            return rates.take(conn, KEY, per_minute=600, burst=600, size=size, now_ms=now_ms).allowed

    assert send(60, NOW)
    assert take(conn, NOW - back_ms, per_minute=600, burst=600).allowed  # without a size: the bytes move too
    assert [send(amount, NOW - back_ms) for amount in (41, 40, 1)] == [False, True, False]
    assert [send(1, NOW - back_ms + at) for at in (599, 600)] == [False, True]


def test_full_buckets_are_pruned_a_batch_at_a_time(conn):
    for number in range(4):
        take(conn, key=str(number))
    take(conn, key="late", now_ms=NOW + 60)
    with transaction(conn):
        assert rates.prune(conn, older_than_ms=NOW + 1000, limit=9) == 0
        assert rates.prune(conn, older_than_ms=NOW + 1001, limit=3) == 3
        assert rates.prune(conn, older_than_ms=NOW + 1001, limit=3) == 1
    assert column(conn, "SELECT key FROM rates") == ["late"]


def test_a_bucket_is_found_by_its_key(conn):
    assert all(line.startswith("SEARCH") for line in plan(conn, rates.TAKE, key="k", now=1, interval=1, room=1))


def test_eight_processes_at_once_take_no_more_than_the_limit(db):
    assert sorted(race(db, TAKE, [[]] * 8)) == ["False"] * 3 + ["True"] * 5


SIZED = """
from shared.db.access import rates
with transaction(conn):
    print(rates.take(conn, "k", per_minute=100, burst=100, size=rates.Size(30, 100), now_ms=1).allowed)
"""


def test_eight_processes_at_once_bring_no_more_bytes_than_the_limit(db):
    assert sorted(race(db, SIZED, [[]] * 8)) == ["False"] * 5 + ["True"] * 3


def test_a_bucket_with_bytes_is_found_by_its_key_and_pruned_when_both_are_full(conn):
    given = {"key": "k", "now": 1, "interval": 1, "room": 1, "takes": 1, "minute": MINUTE}
    assert all(line.startswith("SEARCH") for line in plan(conn, rates.TAKE_SIZED, **given))
    with transaction(conn):
        rates.take(conn, "k", per_minute=60_000, burst=9, size=Size(50, 100), now_ms=NOW)
        assert rates.prune(conn, older_than_ms=NOW + 30_000, limit=9) == 0
        assert rates.prune(conn, older_than_ms=NOW + 30_001, limit=9) == 1


@given(
    per_minute=st.integers(1, 1000),
    steps=st.lists(st.tuples(st.integers(0, 60_000), st.integers(0, 1200)), max_size=40),
)
def test_bytes_behave_like_a_bucket(fresh_database, per_minute, steps):
    """Beside a bucket told plainly: what it lacks runs in again within a minute."""
    conn = open_connection(fresh_database)
    try:
        rows(conn, "BEGIN")
        now, lacks = NOW, 0
        for step, amount in steps:
            now, lacks = now + step, max(0, lacks - 1000 * step)
            takes = -(-60_000_000 * amount // per_minute)
            fits = lacks + takes <= 60_000_000
            found = rates.take(conn, "k", per_minute=60_000, burst=10**6, size=Size(amount, per_minute), now_ms=now)
            assert (found.allowed, found.lacks_size) == (fits, not fits)
            lacks += takes * fits
    finally:
        rows(conn, "ROLLBACK")
        conn.close()
