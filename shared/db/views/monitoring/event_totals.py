"""How many events of each type there ever were, by agent or channel. Events are pruned; these sums only grow.

``sweep`` adds up what is new; a reader adds the few events that came since. Both see the rows of one instant, so no
event is counted twice or missed.
"""

from typing import NamedTuple

import apsw

from shared.db.engine import meta
from shared.db.engine.connection import rows, savepoint

LONGEST_TAIL = 50_000  # events that a reader adds, 30 ms; where more wait, the sums stand still until sweep runs
_COUNTED = "events_counted"

# A type that begins so tells of a channel; every other one of an agent.
NEW = """
    SELECT type, ifnull(iif(type GLOB 'response_*' OR type GLOB 'channel_*', channel, agent), '') AS name, count(*)
      FROM events
     WHERE id > :after AND id <= :last
     GROUP BY 1, 2
"""
NEXT = "SELECT max(id), count(*) FROM (SELECT id FROM events WHERE id > :after ORDER BY id LIMIT :limit)"
_ADD = f"""
    INSERT INTO event_totals (type, name, number)
    {NEW}
    ON CONFLICT (type, name) DO UPDATE SET number = number + excluded.number
"""


class EventTotal(NamedTuple):
    """How many events of this type name this agent or channel; *name* is empty where they name none."""

    type: str
    name: str
    number: int


def add_up(conn: apsw.Connection, *, limit: int) -> int:
    """Add up to *limit* events to the sums, the oldest that are not in them; how many."""
    after = _counted(conn)
    last, count = _next(conn, after, limit)
    if count:
        conn.execute(_ADD, {"after": after, "last": last})
        meta.put(conn, _COUNTED, str(last))
    return count


def read(conn: apsw.Connection) -> list[EventTotal]:
    """The sums of now, in the order in which the types and names first came."""
    with savepoint(conn):  # of one instant
        after = _counted(conn)
        kept = rows(conn, "SELECT type, name, number FROM event_totals ORDER BY rowid")
        last, _ = _next(conn, after, LONGEST_TAIL)
        new = rows(conn, NEW, {"after": after, "last": last})
    found = {(type_, name): number for type_, name, number in kept}
    for type_, name, number in new:
        found[type_, name] = found.get((type_, name), 0) + number
    return [EventTotal(*key, number) for key, number in found.items()]


def _next(conn: apsw.Connection, after: int, limit: int) -> tuple[int, int]:
    """The id of the last of the *limit* events that follow *after*, and how many there are. Ids may have gaps."""
    ((last, count),) = rows(conn, NEXT, {"after": after, "limit": limit})
    return last or after, count


def _counted(conn: apsw.Connection) -> int:
    """The id of the newest event in the sums."""
    return int(meta.get(conn, _COUNTED) or 0)
