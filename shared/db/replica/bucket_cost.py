"""What a month of a replica costs at the bucket: the requests as they were counted, and the bytes that lie there.

An estimate: no free tier, no taxes, no traffic out of the region. The prices are S3's; another store has others
(``POSTROOM_BUCKET_PRICES``).
"""

import msgspec

from shared.core.errors import ConfigInvalid
from shared.db.replica.request_counts import RequestCounts

PRICES_AS_OF = "2025-10"  # S3 Standard, us-east-1; https://aws.amazon.com/s3/pricing/
MONTH_S = 30 * 86_400
LEAST_S = 600  # in less, the requests of the start outweigh those of every day
_GB = 1_000_000_000 * 1.073741824  # S3 bills by 2^30 bytes


class BucketPrices(msgspec.Struct, frozen=True):
    """US dollars: for a thousand requests of each kind, and for a gigabyte (2^30 bytes) in a month."""

    put: float = 0.005
    get: float = 0.0004
    list: float = 0.005
    delete: float = 0.0
    storage: float = 0.023


class MonthCost(msgspec.Struct, frozen=True):
    """US dollars in 30 days."""

    puts: float
    gets: float
    lists: float
    deletes: float
    storage: float

    @property
    def total(self) -> float:
        return self.puts + self.gets + self.lists + self.deletes + self.storage


def parse_prices(text: str) -> BucketPrices:
    """The prices in a setting such as ``put=0.0054,storage=0.0245``; what it does not name costs what S3 takes.

    Raises:
        ConfigInvalid
    """
    found = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, _, price = part.partition("=")
        try:
            found[name.strip()] = float(price)
        except ValueError:
            found[name.strip()] = -1.0
    names = BucketPrices.__struct_fields__
    if not {*names}.issuperset(found) or not all(0 <= price < 1000 for price in found.values()):
        raise ConfigInvalid(
            f"POSTROOM_BUCKET_PRICES is {text!r}: write name=dollars, separated by commas; the names are "
            f"{', '.join(names)} (requests by the thousand, storage by the GB and month)"
        )
    return BucketPrices(**found)


def month_cost(counts: RequestCounts, observed_s: float, stored_bytes: int, prices: BucketPrices) -> MonthCost | None:
    """The cost of 30 days like the *observed_s* in which *counts* were counted; None before ten minutes.

    Args:
        stored_bytes: in the bucket now.
    """
    if observed_s < LEAST_S:
        return None
    months = MONTH_S / observed_s / 1000
    return MonthCost(
        counts.puts * months * prices.put,
        counts.gets * months * prices.get,
        counts.lists * months * prices.list,
        counts.deletes * months * prices.delete,
        stored_bytes / _GB * prices.storage,
    )
