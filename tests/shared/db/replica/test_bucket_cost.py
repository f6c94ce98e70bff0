"""What a month of requests and bytes costs."""

import pytest

from shared.core.errors import ConfigInvalid
from shared.db.replica.bucket_cost import MONTH_S, BucketPrices, month_cost, parse_prices
from shared.db.replica.request_counts import RequestCounter, RequestCounts

DAY_S = 86_400


def test_a_day_of_requests_is_a_thirtieth_of_the_month():
    counts = RequestCounts(puts=10_000, gets=20_000, lists=5_000, deletes=9_000)
    cost = month_cost(counts, DAY_S, 2**31, BucketPrices())

    assert cost.puts == pytest.approx(30 * 10 * 0.005)
    assert cost.gets == pytest.approx(30 * 20 * 0.0004)
    assert cost.lists == pytest.approx(30 * 5 * 0.005)
    assert cost.deletes == 0, "S3 bills none"
    assert cost.storage == pytest.approx(2 * 0.023)
    assert cost.total == pytest.approx(1.5 + 0.24 + 0.75 + 0.046)


def test_nothing_is_estimated_from_the_first_minutes():
    assert month_cost(RequestCounts(puts=9), 599, 1, BucketPrices()) is None
    assert month_cost(RequestCounts(puts=9), MONTH_S, 0, BucketPrices()).total == pytest.approx(9 / 1000 * 0.005)


def test_another_store_has_other_prices():
    assert parse_prices("") == BucketPrices()
    assert parse_prices(" put=0.01, storage=0.5,") == BucketPrices(put=0.01, storage=0.5)


@pytest.mark.parametrize("text", ["put", "put=cheap", "puts=1", "put=-1", "put=nan", "=1"])
def test_a_price_that_is_none_is_refused(text):
    with pytest.raises(ConfigInvalid, match="POSTROOM_BUCKET_PRICES is"):
        parse_prices(text)


def test_a_counter_gives_what_came_since_it_was_asked():
    counter = RequestCounter()
    counter.add(RequestCounts(puts=1, sent_bytes=5))
    counter.add(RequestCounts(puts=1, lists=2))
    assert counter.take() == RequestCounts(puts=2, lists=2, sent_bytes=5)
    assert counter.take().total == 0
    assert RequestCounts(puts=3, gets=2).minus(RequestCounts(puts=1)) == RequestCounts(puts=2, gets=2)
