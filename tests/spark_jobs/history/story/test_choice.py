import pytest

from spark_jobs.history.story.choice import halves, middle, thinned, wished

TEN = [1000 * number for number in range(10)]  # positions at 0, 1, ... 9 s


@pytest.mark.parametrize(
    ("moments", "expected"),
    [
        ([], []),
        ([3000], [2, 3]),
        ([3001, 3002, 3999], [3, 4]),
        ([0], [0]),
        ([50_000], [8, 9]),
        ([1000, 6000], [0, 1, 6]),
    ],
)
def test_the_positions_that_have_what_happened_are_wished(moments, expected):
    assert wished(TEN, moments) == expected


@pytest.mark.parametrize(
    ("most", "expected"),
    [(0, []), (1, [6]), (2, [0, 6]), (3, [0, 3, 6]), (4, [0, 2, 4, 6]), (9, [0, 1, 2, 3, 4, 5, 6])],
)
def test_too_many_are_thinned_evenly(most, expected):
    assert thinned(range(7), most) == expected


def test_a_stretch_is_halved_until_nothing_is_in_between():
    assert [middle(2, 9), middle(2, 5), middle(4, 5)] == [5, 3, None]


@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
def test_a_search_reaches_every_position_the_far_ones_first(count):
    found = list(halves(count))
    assert sorted(found) == list(range(count))
    assert found[:2] == [0, count // 2][:count]
