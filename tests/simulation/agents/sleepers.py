"""An agent that takes its time while ``dispatch`` stands still, beyond the leases of its turns and the next sweep.

So its turns are lost to others, and it goes on with them when it wakes up: what they then say must not count.
"""

import random
from collections.abc import Sequence

import apsw

from shared.roster import agents_and_teams
from tests.simulation.agents.thinkers import wire
from tests.simulation.faults import Fault
from tests.simulation.parts import Surroundings, WorldPart
from tests.simulation.people.lines import Line
from tests.simulation.platforms.messages import Place

AGENT = "sleeper"
_SWEEPS_S = 60.0  # so often they come
_MOST_FREEZES = 6


class Sleepers(WorldPart):
    """The agent, and direct chats in which its turns run when ``dispatch`` begins to stand still."""

    def __init__(self, world: Surroundings) -> None:
        dice = world.dice("sleepers")
        sweeps = range(1, 1 + max(2, int(world.span_s / _SWEEPS_S)))
        self._freezes = [
            Fault(round(_SWEEPS_S * number - dice.uniform(36, 44), 3), "freeze", "dispatch", 0.0, 50.0)
            for number in sorted(dice.sample(sweeps, min(len(sweeps), _MOST_FREEZES)))
        ]
        places = [Place(str(chat), None, str(chat)) for chat in range(760, 762 + dice.randint(0, 2))]
        self.written = {place: _lines(dice, place, [each.at_s for each in self._freezes]) for place in places}

    def faults(self) -> Sequence[Fault]:
        return self._freezes

    def furnish(self, conn: apsw.Connection, now_ms: int) -> None:
        agents_and_teams.save_agent(conn, AGENT, {"concurrency": 4}, now_ms=now_ms)
        for place in self.written:
            wire(conn, place, AGENT, now_ms)


def _lines(dice: random.Random, place: Place, freezes_s: Sequence[float]) -> list[Line]:
    """What a person writes before each freeze: one line, or three of which the last two share a turn that fails."""
    timed: list[tuple[float, str, str]] = []
    for number, at_s in enumerate(freezes_s):
        mark = f"{place.mark}n{number}"
        if dice.random() < 0.5:
            slow_s = dice.randint(2, 9)
            timed.append((at_s - dice.uniform(0.3, slow_s - 0.3), f"!slow {slow_s} {mark}", mark))
        else:
            timed.append((at_s - 4, f"!slow 3 {mark}a", f"{mark}a"))
            timed.append((at_s - 3.5, f"!slow 6 {mark}b", f"{mark}b"))
            timed.append((at_s - 3.3, f"!fail 1 {mark}c", f"{mark}c"))
    before_s = [0.0, *(each[0] for each in timed)]
    return [Line(at_s - begun_s, text, (said,)) for begun_s, (at_s, text, said) in zip(before_s, timed, strict=False)]
