"""A month's bill: amounts of one Postroom, times the prices of one provider."""

import math
from typing import Literal

import msgspec

MONTH_S = 30 * 86_400


class Amounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a provider bills for one Postroom in a month.

    Attributes:
        writes: PUT, POST and LIST requests to the bucket; deletions are free everywhere.
        reads: GET and HEAD requests.
        stored_gb: in the bucket.
        out_gb: what leaves the machine for the platforms; uploads to the bucket are billed as writes alone.
        machines: 1, or 2 with a standby.
    """

    what: str
    writes: float
    reads: float
    stored_gb: float
    machines: int = 1
    out_gb: float = 0


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a price list.

    Attributes:
        of: which amount is billed; ``once``: the same whatever the amounts.
        dollars: for *per* of it.
        free: what is not billed each month.
        in_whole_units: the provider bills a begun unit as a whole one.
        as_of: when the source said so: a year, a month or a day.
        checked: whether the source is the provider's own page, or a copy of it.
    """

    of: Literal["writes", "reads", "stored_gb", "out_gb", "machines", "once"]
    what: str
    dollars: float
    as_of: str
    source: str
    per: float = 1
    free: float = 0
    in_whole_units: bool = False
    checked: bool = True

    def cost(self, amounts: Amounts) -> float:
        """In dollars."""
        amount = 1 if self.of == "once" else getattr(amounts, self.of)
        units = max(amount - self.free, 0) / self.per
        return self.dollars * (math.ceil(units) if self.in_whole_units else units)


class PriceList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A bucket and a machine, with their prices."""

    name: str
    prices: list[Price]

    def lines(self, amounts: Amounts) -> list[tuple[Price, float]]:
        """Each price with what it comes to."""
        return [(price, price.cost(amounts)) for price in self.prices]

    def total(self, amounts: Amounts) -> float:
        """In dollars."""
        return sum(cost for _, cost in self.lines(amounts))
