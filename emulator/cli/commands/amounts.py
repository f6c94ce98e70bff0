"""Amounts of money as people read them."""

from decimal import Decimal

_MICRO = 1_000_000


def in_dollars(micro: int | None) -> str:
    """``$1.25``; fractions of a cent only where there are any; empty where no price is known."""
    if micro is None:
        return ""
    exact = f"{Decimal(micro) / _MICRO:.6f}".rstrip("0")
    whole, _, fraction = exact.partition(".")
    return f"${whole}.{fraction:0<2}"
