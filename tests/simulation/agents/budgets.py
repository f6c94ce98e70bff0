"""A budget of the agent that asks models: small, so that it is used up again and again, and an owner gives more."""

import apsw

from shared.core.time.periods import PeriodName
from shared.db.spending import budgets
from tests.simulation import row_checks
from tests.simulation.agents.thinkers import AGENT, Thinkers
from tests.simulation.parts import Query, Surroundings, WorldPart


class Budgets(WorldPart):
    """One budget in tokens, of the agent or of all together."""

    def __init__(self, world: Surroundings, thinkers: Thinkers) -> None:
        dice = world.dice("budgets")
        self._models = thinkers.models
        self._agent = dice.choice([AGENT, None])
        self._period: PeriodName = dice.choice(["day", "month"])
        self._amount = dice.choice([5_000, 20_000, 60_000])

    def furnish(self, conn: apsw.Connection, now_ms: int) -> None:
        budgets.put(conn, self._agent, self._period, "tokens", self._amount, now_ms=now_ms)

    def problems(self, query: Query, *, is_history_whole: bool) -> list[str]:
        """No more than one request goes past the budget; and whatever was killed, no token is missing in the rows.

        A cut of the power takes what was counted since the last sync.
        """
        problems = row_checks.budgets(query, past=self._models.most)
        ((counted,),) = query("SELECT ifnull(sum(input + output + cache_read + cache_write), 0) FROM usage")
        if is_history_whole and counted < self._models.used:
            problems.append(f"the models gave {self._models.used} tokens, and {counted} are counted")
        return problems
