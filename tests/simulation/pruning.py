"""Pruning in a world: ``sweep`` deletes what ended a minute ago, and the world keeps a copy to be judged by.

The copy is made by triggers in the database itself, so it dies, is lost and comes back with what it is a copy of. What
was pruned must stay done: a message that comes once more is still known, and nothing runs or arrives again.
"""

import random
from collections import Counter
from collections.abc import Mapping

import apsw

from shared.db.engine.connection import rows
from tests.simulation.parts import Query, Surroundings, WorldPart

_TABLES = ("messages", "responses")  # what the setting is about
_OLD = """
    SELECT count(*) FROM main.messages
     WHERE status IN ('completed', 'cancelled') AND recurrence IS NULL AND from_agent IS NULL AND updated_at < {old}
       AND id < (SELECT max(id) FROM main.messages WHERE created_at < {old})  -- the newest one stays
"""
_SLACK_MS = 200_000  # in which sweeps delete what is too old, though some of them fail


class Pruning(WorldPart):
    """Rows are deleted soon after their end."""

    def __init__(self, world: Surroundings) -> None:
        dice: random.Random = world.dice("pruning")
        self._world = world
        self._retention_ms = dice.choice([1_000, 30_000, 90_000])

    def settings(self) -> Mapping[str, str]:
        return {"POSTROOM_RETENTION_MS": str(self._retention_ms)}

    def problems(self, query: Query, *, is_history_whole: bool) -> list[str]:
        ((left,),) = query(_OLD.format(old=self._world.wall_ms() - self._retention_ms - _SLACK_MS))
        return [f"{left} messages should have been pruned"] if left and self._world.is_calm else []

    def counts(self, query: Query) -> Counter[str]:
        return Counter({"rows pruned": sum(query(f"SELECT count(*) FROM pruned_{each}")[0][0] for each in _TABLES)})


def begin_keeping(conn: apsw.Connection) -> None:
    """Keep each row that is deleted from now on."""
    for table in _TABLES:
        names = _columns(conn, table)
        conn.execute(f"CREATE TABLE IF NOT EXISTS pruned_{table} ({', '.join(names)})")
        olds = ", ".join(f"old.{name}" for name in names)
        conn.execute(
            f"CREATE TRIGGER keep_{table} AFTER DELETE ON {table} BEGIN INSERT INTO pruned_{table} VALUES ({olds}); END"
        )


def stop_keeping(conn: apsw.Connection) -> None:
    """Before Postroom opens the database: it refuses one that has triggers which are not its own."""
    for table in _TABLES:
        conn.execute(f"DROP TRIGGER IF EXISTS keep_{table}")


def _columns(conn: apsw.Connection, table: str) -> list[str]:
    return [name for (name,) in rows(conn, "SELECT name FROM pragma_table_xinfo(:table)", {"table": table})]


def show_pruned(conn: apsw.Connection) -> None:
    """Let this connection see the rows that were pruned, as if they were there."""
    for table in _TABLES:
        names = ", ".join(_columns(conn, table))
        conn.execute(
            f"CREATE TEMP VIEW {table} AS SELECT {names} FROM main.{table} UNION ALL SELECT {names} FROM pruned_{table}"
        )
