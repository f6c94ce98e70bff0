"""What became of a world."""

from collections import Counter
from dataclasses import dataclass, field

from tests.simulation.faults import Fault


@dataclass(slots=True)
class Outcome:
    """What became of a world.

    Attributes:
        hash: of its events and rows, and of the order of all callbacks.
        failures: what was wrong, in words; empty: every promise held.
        story: what happened, line by line.
        cpu_s: what it has cost.
    """

    seed: int
    faults: list[Fault] = field(default_factory=list)
    hash: str = ""
    failures: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    cpu_s: float = 0.0
