"""What must be true of the rows of a world at any time: of waits, calls of tools, schedules and budgets.

Each takes a way to read the rows, and returns sentences about what is wrong.
"""

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

from emulator.proving.row_promises import Rows
from shared.core.time import cron, periods
from shared.db.queue.schedules.missed_runs import MissedRuns
from shared.queue.waits import WAITS


class WaitWatch:
    """Nothing waits longer than its own row asked for. After the clock is set back, that holds from the next sweep on.

    Args:
        lease_ms: the setting.
        patience: how long such a row may stand, by a measure that is never set back: the seconds between two sweeps
            that end, or the sweeps themselves.
    """

    def __init__(self, *, lease_ms: int, patience: float) -> None:
        self._lease_ms = lease_ms
        self._patience = patience
        self._found: dict[tuple[str, str, Any], float] = {}

    def look(self, rows: Rows, *, now_ms: int, steady: float) -> list[str]:
        """What has waited too long, once each. *steady*: by the measure that is never set back."""
        values = {":lease": str(self._lease_ms), ":now": str(now_ms), ":limit": "-1"}
        found = set()
        for wait in WAITS:
            sql = wait.found
            for name, value in values.items():
                sql = sql.replace(name, value)
            found |= {(wait.table, wait.until, row) for row in rows(sql)}
        self._found = {each: self._found.get(each, steady) for each in found}
        late = [each for each, since in self._found.items() if steady - since > self._patience]
        for each in late:
            self._found[each] = float("inf")
        return [f"{table} {row} waits longer for {until} than it asked for" for table, until, row in late]


_MOST_LOSSES = 100  # a world has 60 kills at most, and a message that takes dispatch down ends after 20


def losses(rows: Rows) -> list[str]:
    """A message that is there whenever dispatch dies ends at last."""
    found = rows(
        "SELECT message_id, count(*) FROM events WHERE type = 'message_retry' AND data ->> '$.failure' = 'process_gone'"
        f" GROUP BY 1 HAVING count(*) > {_MOST_LOSSES}"
    )
    return [f"{id_} was lost {times} times with its dispatch, and goes on" for id_, times in found]


def calls(rows: Rows) -> list[str]:
    """A call of a tool is whole: where it failed, nothing is left of what it had done by then."""
    found = rows(
        "SELECT turn, call FROM spoken s"
        " WHERE NOT EXISTS (SELECT 1 FROM tool_calls t WHERE t.turn = s.turn AND t.key = s.call)"
    )
    return [f"turn {turn} did {call}, and its tool did not end" for turn, call in found]


def arrivals(rows: Rows) -> list[str]:
    """Each message has one event of its arrival. Of a schedule, earlier ones may be pruned."""
    found = rows(
        "SELECT message_id, (SELECT count(*) FROM events e WHERE e.message_id = m.message_id"
        " AND type = 'message_received') AS count FROM messages m WHERE series_id IS NULL AND count != 1"
    )
    return [f"the arrival of {id_} is told by {count} events" for id_, count in found]


def questions(rows: Rows) -> list[str]:
    """What answered a question is a message to the agent that asked."""
    found = rows(
        "SELECT question_id, answer FROM questions q WHERE status = 'answered' AND click IS NOT NULL"
        " AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.message = q.answer AND m.trigger = 1)"
    )
    return [f"{id_} was answered with {answer!r}, and nobody was told" for id_, answer in found]


def schedules(rows: Rows) -> list[str]:
    """No instant of a schedule has two runs; with ``catch_up``, none between two runs is missing."""
    problems = []
    runs: dict[str, list[tuple[int, str | None, str | None]]] = defaultdict(list)
    for series, due_at, recurrence, timezone in rows(
        "SELECT series_id, due_at, recurrence, timezone FROM schedule_runs ORDER BY series_id, due_at, id"
    ):
        if runs[series] and runs[series][-1][0] == due_at:
            problems.append(f"series {series} had two runs for {due_at}")
        runs[series].append((due_at, recurrence, timezone))
    missed: dict[str, set[int]] = defaultdict(set)
    for row in rows(f"SELECT {', '.join(MissedRuns._fields)} FROM missed_runs"):
        each = MissedRuns(*row)
        instants = cron.between(each.recurrence, each.timezone, due_ms=each.due_at, until_ms=each.until_at, most=10_000)
        missed[each.series_id].update(instants)
    misfires: dict[str, str] = dict(rows(
        "SELECT series_id, misfire FROM messages WHERE series_id IS NOT NULL"
        " UNION SELECT series_id, misfire FROM responses WHERE series_id IS NOT NULL"
    ))  # fmt: skip
    for series, begun in runs.items():
        for (due_at, recurrence, timezone), (next_due_at, *grid) in pairwise(begun):
            if recurrence is None or grid != [recurrence, timezone]:
                continue
            between = cron.between(recurrence, timezone, due_ms=due_at, until_ms=next_due_at, most=10_000)[1:]
            noted = set() if misfires.get(series) == "catch_up" else missed[series]
            problems += [f"series {series} has no run for {instant}" for instant in between if instant not in noted]
    return problems


def budgets(rows: Rows, *, past: int) -> list[str]:
    """No budget is passed by more than *past*: what may be under way when it is used up, in its unit.

    A turn counts for the period in which its first request was made.
    """
    problems = []
    for agent, period, unit, amount, extra, extra_of in rows(
        "SELECT agent, period, unit, amount, extra, extra_of FROM budgets"
    ):
        used: Counter[int] = Counter()
        for name, paid_by, tokens, cost, at in rows(
            "SELECT agent, paid_by, input + output + cache_read + cache_write, cost, created_at FROM usage"
        ):
            if agent in (None, name) and (unit == "tokens" or paid_by == "key"):
                used[periods.containing(period, at, "UTC").start_ms] += tokens if unit == "tokens" else cost or 0
        for start_ms, total in used.items():
            limit = amount + (extra if extra_of == start_ms else 0)
            if total > limit + past:
                problems.append(f"{agent or 'all agents'} used {total} {unit} of {limit} in the {period} of {start_ms}")
    return problems
