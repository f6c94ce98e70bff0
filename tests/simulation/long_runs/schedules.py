"""The schedules of the year: daily, weekly and monthly ones, over changes of the clock and ends of months.

Their instants are computed here by the calendar, and not by the product's cron.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from tests.simulation.machine.process import Reset
from tests.simulation.parts import Query, Surroundings, Work, WorldPart
from tests.simulation.people.lines import Line
from tests.simulation.people.programs import TOKEN
from tests.simulation.platforms.telegram import Telegram

_DAY = timedelta(days=1)
_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Planned:
    """A schedule of the direct chat of person *chat*.

    Attributes:
        times: of its days, on the wall clock of *zone*.
        is_on: whether a day is one of its days.
    """

    label: str
    chat: str
    cron: str
    zone: str
    misfire: str
    times: tuple[time, ...]
    is_on: Callable[[date], bool] = lambda _: True

    @property
    def answer(self) -> str:
        """What each run says, with the mark of its chat."""
        return f"c{self.chat}t0n0{self.label}"

    @property
    def prompt(self) -> str:
        return f"!say {self.answer}"

    def instants(self, from_ms: int, until_ms: int) -> Iterator[int]:
        """In ms UTC. A time that the clock skips comes as much later; one that comes twice counts the first time."""
        day, last = (datetime.fromtimestamp(each / 1000, UTC).date() for each in (from_ms, until_ms))
        day -= _DAY
        while day <= last + _DAY:
            for at in self.times if self.is_on(day) else ():
                ms = int(datetime.combine(day, at, ZoneInfo(self.zone)).timestamp() * 1000)
                if from_ms <= ms < until_ms:
                    yield ms
            day += _DAY


# None of them is due on a Friday between 7:00 and 8:00 UTC, when a week ends.
PLANNED = (
    Planned("morning", "100", "15 10 * * *", "Europe/Berlin", "catch_up", (time(10, 15),)),
    Planned("skippedhour", "100", "30 2 * * *", "Europe/Berlin", "catch_up", (time(2, 30),)),
    Planned("doubledhour", "101", "30 1 * * *", "America/New_York", "catch_up", (time(1, 30),)),
    Planned("noon", "101", "0 12 * * *", "UTC", "skip", (time(12),)),
    Planned("sixhours", "102", "0 */6 * * *", "UTC", "coalesce", (time(0), time(6), time(12), time(18))),
    Planned("monday", "102", "0 8 * * 1", "Asia/Tokyo", "coalesce", (time(8),), lambda day: day.weekday() == 0),
    Planned("first", "100", "0 6 1 * *", "UTC", "catch_up", (time(6),), lambda day: day.day == 1),
    Planned(
        "thirtyfirst", "101", "0 12 31 * *", "Australia/Sydney", "catch_up", (time(12),), lambda day: day.day == 31
    ),
    Planned(
        "last", "102", "0 21 L * *", "America/New_York", "catch_up", (time(21),), lambda day: (day + _DAY).day == 1
    ),
)


class Schedules(WorldPart):
    """Makes them in the first week, and counts their runs in each.

    Args:
        query: of all rows, also of the weeks before.
        from_ms, until_ms: of the week, as the calendar has it. The first one is for making them.
    """

    def __init__(
        self, world: Surroundings, platform: Telegram, query: Query, *, from_ms: int, until_ms: int, makes: bool
    ) -> None:
        self._world = world
        self._platform = platform
        self._query = query
        self._from_ms = until_ms if makes else from_ms
        self._until_ms = until_ms
        self._makes = makes
        self._ran = 0
        self._wrong: list[str] = []

    def work(self) -> Sequence[Work]:
        return [self._make(each) for each in PLANNED] if self._makes else []

    def lines(self) -> Mapping[str, Line]:
        return {each.prompt: Line(0, each.prompt, (), is_loose=True) for each in PLANNED}

    def problems(self, query: Query, *, is_history_whole: bool) -> list[str]:
        """Each instant of the week has one run, with one answer; where it is not caught up, a note of why not will do.

        Args:
            query: of the rows of this week.
        """
        problems = list(self._wrong)
        series: dict[str, str] = dict(
            self._query("SELECT message, series_id FROM messages WHERE recurrence IS NOT NULL")
        )
        runs = query("SELECT series_id, due_at, message_id FROM schedule_runs")
        self._ran = len(runs)
        missed = self._query("SELECT series_id, due_at, ifnull(until_at, due_at + 1) FROM missed_runs")
        ended = "SELECT message_id FROM responses WHERE status IN ('acked', 'dead')"
        answers = Counter(each for (each,) in query(ended))
        for each in PLANNED:
            id_ = series.get(each.prompt)
            ran = Counter(due_at for of, due_at, _ in runs if of == id_)
            noted = [(first, until) for of, first, until in missed if of == id_ and each.misfire != "catch_up"]
            wanted = list(each.instants(self._from_ms, self._until_ms))
            problems += [f"{each.label} ran {count} times for {_told(at)}" for at, count in ran.items() if count > 1]
            problems += [
                f"{each.label} has no run for {_told(at)}"
                for at in wanted
                if not ran[at] and not any(first <= at < until for first, until in noted)
            ]
            problems += [
                f"{each.label} ran for {_told(at)}, which is none of its instants"
                for at in ran
                if at not in wanted and at >= self._from_ms
            ]
            problems += [
                f"the run of {each.label} for {_told(at)} has {answers[message]} answers"
                for of, at, message in runs
                if of == id_ and answers[message] != 1
            ]
        return problems

    def counts(self, query: Query) -> Counter[str]:
        return Counter({"schedule runs": self._ran})

    async def _make(self, plan: Planned) -> None:
        """Once the person has an answer, so that the chat is known."""
        while not any(each.chat == plan.chat for each in self._platform.arrivals):  # noqa: ASYNC110
            await asyncio.sleep(_PAUSE_S)
        body = {
            "agentId": "assistant", "message": plan.prompt, "cron": plan.cron, "timezone": plan.zone,
            "label": plan.label, "channel": "telegram", "sender": f"P{plan.chat}", "senderId": plan.chat,
            "misfire": plan.misfire,
        }  # fmt: skip
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        while True:
            try:
                answer = await self._world.ask("api", "POST", "/api/schedules", headers, json.dumps(body).encode())
            except Reset:
                answer = None
            if answer is not None and (answer.status == 200 or b"exists already" in answer.body):
                return
            if answer is not None and answer.status < 500:
                self._wrong.append(f"POST /api/schedules {plan.label}: {answer.status} {answer.body!r}")
                return
            await asyncio.sleep(_PAUSE_S)


def _told(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()
