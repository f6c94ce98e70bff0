"""One week of the year of a small postroom: a world that goes on from the file of the week before.

At its end, all processes stop; the next week starts with others, as after an upgrade.
"""

import os
import random
import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

from emulator.proving import row_promises
from emulator.storage import due
from shared.db.engine.connection import open_connection, rows
from tests.simulation import row_checks
from tests.simulation.faults import Fault
from tests.simulation.long_runs.leaps import Leaps
from tests.simulation.long_runs.schedules import Schedules
from tests.simulation.machine.seams import BEGAN_MS
from tests.simulation.parts import WorldPart
from tests.simulation.people import programs
from tests.simulation.people.lines import Line, lines
from tests.simulation.people.programs import Client
from tests.simulation.people.writing import People
from tests.simulation.platforms.messages import Place
from tests.simulation.platforms.telegram import Telegram
from tests.simulation.world import World

DAYS = 365
WEEKS = 53  # the last one has a day
_DAY_MS = 86_400_000
_DAY_S = 60.0  # of the world's own time, for one day: what is between is leapt over
_FETCHES_S = 15.0
_MOST_FAULTS = 10
_END_MS = 3_600_000  # before the end of the week, nobody begins anything any more
_SLACK_MS = 600_000  # in which a sweep deletes what is too old
_NUMBERS = 1_000_000  # of the platform, for one week
RETENTION_MS, HISTORY_MS = 10 * _DAY_MS, 30 * _DAY_MS  # of what a week judges, all is still there at its end
_PLACES = {  # and what is done there; where a turn speaks and fails, what it took with it ends too
    **{Place(str(chat), None, str(chat)): "plain" for chat in (100, 101, 102)},
    Place("103", None, "103"): "speaks",
    Place("104", None, "104"): "acts",
    Place("-900", None, "101", is_group=True): "plain",
    **{Place("-901", thread, "103", is_group=True): "plain" for thread in ("17", "18")},
}
_OF_WEEK = ("responses", "events", "dropped", "schedule_runs", "questions")
_OLD = """
    SELECT count(*) FROM messages
     WHERE status IN ('completed', 'cancelled') AND recurrence IS NULL AND from_agent IS NULL
       AND updated_at < {messages} AND id < (SELECT max(id) FROM messages)
     UNION ALL SELECT count(*) FROM responses WHERE status = 'acked' AND acked_at < {messages}
       AND id < (SELECT max(id) FROM responses)
     UNION ALL SELECT count(*) FROM events WHERE created_at < {history} AND id < (SELECT max(id) FROM events)
"""


class Week(World):
    """Week *number*, from 0 on. *home* has the file at the end of each week."""

    ticks_s: ClassVar = {"deliver": 5.0, "dispatch": 5.0, "sweep": 60.0, "recurrence": 60.0}

    def __init__(self, number: int, home: Path, seed: int, folder: Path, faults: Sequence[Fault] | None) -> None:
        self._number, self._home = number, home
        self._from_ms = BEGAN_MS + number * 7 * _DAY_MS
        self._until_ms = min(self._from_ms + 7 * _DAY_MS, BEGAN_MS + DAYS * _DAY_MS)
        self._first: dict[str, int] = dict.fromkeys((*_OF_WEEK, "messages"), 0)  # ids of the week are larger
        self._begins_ms = self._from_ms
        if number:
            shutil.copyfile(file_of(home, number - 1), folder / "p.db")
            with closing(open_connection(folder / "p.db")) as conn:
                for table in self._first:
                    ((self._first[table],),) = rows(conn, f"SELECT ifnull(max(id), 0) FROM {table}")
                self._begins_ms = max(self._from_ms, (due.newest(conn) or 0) + 1000)
        super().__init__(seed, folder, faults)

    def _shape(self, _: random.Random) -> tuple[float, bool]:
        return _DAY_S * (self._until_ms - self._from_ms) / _DAY_MS, True

    def _plan(self, *, is_replicated: bool) -> list[Fault]:
        """Few enough that the clock can leap between them."""
        made = super()._plan(is_replicated=is_replicated)
        few = self.dice("few faults").sample(made, min(len(made), _MOST_FAULTS))
        return sorted(few, key=lambda fault: fault.at_s)

    def _put_settings(self) -> None:
        super()._put_settings()
        os.environ |= {
            "POSTROOM_RETENTION_MS": str(RETENTION_MS),
            "POSTROOM_HISTORY_RETENTION_MS": str(HISTORY_MS),
        }

    def _parts_of(self, _: random.Random) -> list[WorldPart]:
        computer = self.computer
        computer.clock.ahead_ms = self._begins_ms - BEGAN_MS
        telegram = Telegram(self, first=1000 + self._number * _NUMBERS)
        name = f"week{self._number}"
        client = Client(self, name, programs.lines(self.dice("client"), name, self.span_s), fetches_s=_FETCHES_S)
        client.event_ids.append(self._first["events"])
        until_ms = self._until_ms - _END_MS
        return [
            People(self, telegram, {place: self._lines(place) for place in _PLACES}),
            client,
            Schedules(
                self,
                telegram,
                computer.query,
                from_ms=self._from_ms,
                until_ms=self._until_ms,
                makes=not self._number,
            ),
            Leaps(computer, self.outcome.faults, until_ms=until_ms, span_s=self.span_s),
        ]

    def _lines(self, place: Place) -> list[Line]:
        """Nobody makes a schedule: those of the year are known."""
        dice, first = self.dice(f"place {place.mark}"), self._number * 100
        made = lines(dice, place, self.span_s, first=first, habit=_PLACES[place])
        return [line for line in made if not line.prompt]

    @property
    def is_clock_steady(self) -> bool:
        """It leaps."""
        return False

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Of the rows of this week. Runs of schedules are older than the week in which they are due."""
        with closing(open_connection(self.computer.db, readonly=True)) as conn:
            for table in _OF_WEEK:
                conn.execute(f"CREATE TEMP VIEW {table} AS SELECT * FROM main.{table} WHERE id > {self._first[table]}")
            of_week = f"id > {self._first['messages']} OR series_id IS NOT NULL"
            conn.execute(f"CREATE TEMP VIEW messages AS SELECT * FROM main.messages WHERE {of_week}")
            return rows(conn, sql)

    async def live(self) -> None:
        await super().live()
        self._fail(self._of_year())
        self._keep()

    def _of_year(self) -> list[str]:
        """What is true of all rows, those of the weeks before too."""
        query, now_ms = self.computer.query, self.wall_ms()
        old = query(_OLD.format(messages=now_ms - RETENTION_MS - _SLACK_MS, history=now_ms - HISTORY_MS - _SLACK_MS))
        return [
            *row_checks.schedules(query),
            *(f"{table}: {count} rows should have been pruned" for table, (count,) in zip(
                ("messages", "responses", "events"), old, strict=True) if count),
            *self._of_copy(),
            *([] if now_ms < self._until_ms else ["the week took longer than a week"]),
        ]  # fmt: skip

    def _of_copy(self) -> list[str]:
        """The replica is a sound database that has each message of the week that was accepted."""
        assert self.computer.litestream is not None
        copy = Path("copy.db")
        copy.write_bytes(self.computer.litestream.replica())
        with closing(open_connection(copy, readonly=True)) as conn:
            problems = row_promises.sound(lambda sql: rows(conn, sql))
            stored = {text for (text,) in rows(conn, "SELECT message FROM messages")}
        written = self._platforms[0].written.values()
        edits = {each.number for each in written if each.is_edit}
        return [
            *(f"the replica: {each}" for each in problems),
            *(f"the replica has no {each.text!r}" for each in written
              if each.accepted and each.text not in stored and each.number not in edits),
        ]  # fmt: skip

    def _keep(self) -> None:
        """For the next week: all that the log holds is in the file."""
        with closing(open_connection(self.computer.db, readonly=True)) as conn:
            image = conn.serialize("main")
        kept = file_of(self._home, self._number)
        kept.with_suffix(".new").write_bytes(image)
        kept.with_suffix(".new").replace(kept)


def file_of(home: Path, number: int) -> Path:
    """The database at the end of the week."""
    return home / f"week-{number:02}.db"
