"""Slices that take turns: every candidate meets the same noise, so ratios inside a round are what counts."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Rate:
    """Operations per second over the rounds, and the ratio to the reference of the same round."""

    median: float
    least: float
    most: float
    ratio: float
    ratio_least: float
    ratio_most: float


def rates(
    candidates: Mapping[str, Callable[[], int]], *, reference: str, rounds: int = 7, slice_s: float = 0.25
) -> dict[str, Rate]:
    """Run each candidate (a call does some operations and says how many) in slices, in turn, *rounds* times."""
    for step in candidates.values():
        step()
    seen: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, step in candidates.items():
            seen[name].append(_rate(step, slice_s))
    return {name: _compare(values, seen[reference]) for name, values in seen.items()}


def _rate(step: Callable[[], int], slice_s: float) -> float:
    done = 0
    start = time.perf_counter()
    while (elapsed := time.perf_counter() - start) < slice_s:
        done += step()
    return done / elapsed


def _compare(values: list[float], reference: list[float]) -> Rate:
    ratios = [value / base for value, base in zip(values, reference, strict=True)]
    return Rate(
        statistics.median(values), min(values), max(values), statistics.median(ratios), min(ratios), max(ratios)
    )


def percentile(values: list[float], share: float) -> float:
    """The value below which *share* of *values* lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
