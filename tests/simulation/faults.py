"""What goes wrong in a world: a plan that the seed makes, each fault at its instant. A plan can be cut down."""

import random
from dataclasses import dataclass
from typing import NamedTuple

_OF_REPLICAS = ("bucket away", "litestream dies", "lost disk", "lost disk at a call", "away, then lost")
_OF_MODELS = ("unsteady models", "unsteady models", "models away")
_TARGETS = ("ingest", "dispatch", "dispatch", "deliver", "deliver", "sweep", "recurrence", "api")


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. *amount* and *seconds* mean what the kind says."""

    at_s: float
    kind: str
    target: str = ""
    amount: float = 0.0
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.at_s:8.3f} s  " + _WORDS[self.kind].format(fault=self)


_WORDS = {
    "kill": "{fault.target} is killed",
    "kill in a write": "{fault.target} dies in a write, {fault.amount:.0f} writes from now",
    "kill at a call": "a process dies at its call of the platform, {fault.amount:.0f} calls from now",
    "power": "the power is cut",
    "power at a call": "the power is cut at a call of the platform, {fault.amount:.0f} calls from now",
    "failing disk": "for {fault.seconds:.1f} s, {fault.amount:.0f} of 100 writes fail",
    "full disk": "the disk is full for {fault.seconds:.1f} s",
    "slow disk": "for {fault.seconds:.1f} s, a sync takes up to {fault.amount:.2f} s",
    "clock": "the clock is moved by {fault.amount:+.0f} s",
    "freeze": "{fault.target} stands still for {fault.seconds:.1f} s",
    "reload": "{fault.target} is reloaded; the old process ends beside the new one",
    "unsteady platform": "for {fault.seconds:.1f} s, {fault.amount:.0f} of 100 calls meet a bad mood",
    "platform away": "the platform is away for {fault.seconds:.1f} s",
    "bucket away": "the bucket is away for {fault.seconds:.1f} s",
    "litestream dies": "Litestream is killed",
    "lost disk": "the machine is lost with its disk; another one restores the replica",
    "lost disk at a call": "the machine is lost with its disk at the next call of the platform",
    "unsteady models": "for {fault.seconds:.1f} s, {fault.amount:.0f} of 100 requests to models meet a bad mood",
    "models away": "the host of the models refuses connections for {fault.seconds:.1f} s",
    "away, then lost": "the bucket is away for {fault.seconds:.1f} s; then the machine is lost with its disk",
}


class Frame(NamedTuple):
    """What a world has before anything happens: for how long people write, and whether Litestream copies."""

    span_s: float
    is_replicated: bool


def frame(dice: random.Random) -> Frame:
    """By the seed's chance for its shape."""
    return Frame(dice.choice([60.0, 300.0, 1200.0]), dice.random() < 0.5)


def plan(dice: random.Random, span_s: float, *, is_replicated: bool) -> list[Fault]:
    """The faults of a world, by instant: each world has kinds of its own, and more or fewer of them."""
    kinds = list(_MAKERS) + (list(_OF_REPLICAS) if is_replicated else [])
    chosen = dice.sample(kinds, dice.randint(1, len(kinds)))
    count = dice.choice([0, 3, 10, 30, 60])
    faults = [_make(dice, dice.choice(chosen), dice.uniform(1, span_s)) for _ in range(count)]
    return sorted(faults, key=lambda fault: fault.at_s)


def plan_of_models(dice: random.Random, span_s: float) -> list[Fault]:
    """The faults of a host of models."""
    kinds = [dice.choice(_OF_MODELS) for _ in range(dice.randint(2, 8))]
    return [
        Fault(
            round(dice.uniform(1, span_s), 3), kind, "", float(dice.randint(40, 100)), round(dice.uniform(10, 120), 1)
        )
        for kind in kinds
    ]


def _make(dice: random.Random, kind: str, at_s: float) -> Fault:
    target, amounts, seconds = _MAKERS.get(kind, (False, (0, 0), (1, 40)))
    return Fault(
        round(at_s, 3),
        kind,
        dice.choice(_TARGETS) if target else "",
        float(dice.choice(amounts)) if isinstance(amounts, list) else round(dice.uniform(*amounts), 2),
        round(dice.uniform(*seconds), 1),
    )


_MAKERS: dict[str, tuple[bool, tuple[float, float] | list[float], tuple[float, float]]] = {
    "kill": (True, (0, 0), (0, 0)),
    "kill in a write": (True, list(range(12)), (0, 0)),
    "kill at a call": (False, list(range(8)), (0, 0)),
    "power": (False, (0, 0), (0, 0)),
    "power at a call": (False, list(range(8)), (0, 0)),
    "failing disk": (False, (1, 60), (0.1, 10)),
    "full disk": (False, (0, 0), (0.1, 20)),
    "slow disk": (False, (0.02, 3), (1, 30)),
    "clock": (False, [-3600, -600, -61, -7, -1, 1, 7, 61, 600, 3600], (0, 0)),
    "freeze": (True, (0, 0), (0.5, 60)),
    "reload": (True, (0, 0), (0, 0)),
    "unsteady platform": (False, (5, 100), (1, 60)),
    "platform away": (False, (0, 0), (1, 120)),
}
