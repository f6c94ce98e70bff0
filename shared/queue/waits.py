"""How long rows wait at most: a clock that is set back makes no wait longer than its row asked for.

An instant for which a row waits was *now*, and a wait, when it was written. After the clock was set back, it is farther
away than the wait is long, by hours if need be. ``bound`` moves it: now, and the wait. What the row asked for is known
from the instant of the writing, or is a fixed length.

Instants that somebody named are no such waits and stay: plans, schedules, a budget's end, what expires as people read
it. Limits of a minute (``rates``, ``call_holds``, a burst of lines) are bounded where they are read.
"""

from typing import NamedTuple

import apsw

from shared.db.engine.connection import rows
from shared.db.roster import accounts, agent_pauses
from shared.queue.platforms import outages, pauses

SLACK_MS = 60_000
"""What no wait is moved for: a sweep looks by the instant at which it began, and others write meanwhile."""


class Wait(NamedTuple):
    """An instant for which rows wait.

    Attributes:
        key: of the table, in one column.
        until: the column with the instant.
        asked_at: the column that says when the wait was asked for, which moves with it.
        longest: where there is none: the longest wait that is ever asked for, as SQL.
        waiting: which rows wait, as SQL.
        found_by: the index that has them, where SQLite would choose another one.
    """

    table: str
    key: str
    until: str
    asked_at: str | None = None
    longest: str = "0"
    waiting: str = "1"
    found_by: str = ""

    @property
    def found(self) -> str:
        """The rows that wait longer than they asked for."""
        return f"""
            SELECT {self.key}
              FROM {self.table}{self.found_by and f" INDEXED BY {self.found_by}"}
             WHERE {self.waiting} AND {self.until} > :now AND {self.until} - :now > {self._asked} + {SLACK_MS}
             LIMIT :limit
        """  # noqa: S608

    @property
    def moved(self) -> str:
        """The statement that lets them wait as long as they asked for."""
        begun = "" if self.asked_at is None else f", {self.asked_at} = :now"
        return f"""
            UPDATE {self.table}
               SET {self.until} = :now + {self._asked}{begun}
             WHERE {self.key} IN ({self.found})
        """  # noqa: S608

    @property
    def _asked(self) -> str:
        return self.longest if self.asked_at is None else f"({self.until} - {self.asked_at})"


# In the words of the indexes of messages, which have the open ones alone.
_RUNS = "(status = 'pending' OR status = 'processing') AND status = 'processing'"
# Of the others nobody waits, and they may be very many.
_HAS_ANSWERS = "id IN (SELECT chat_id FROM responses WHERE status = 'pending' OR status = 'delivering')"
# A lease has one length in all functions: its owner renews it after a third of that.
WAITS = (
    Wait("messages", "id", "process_after", "updated_at", waiting="status = 'pending' AND failure IS NOT NULL"),
    Wait("messages", "id", "lease", longest=":lease", waiting=f"trigger = 1 AND {_RUNS}"),
    Wait("messages", "id", "lease", longest=":lease", waiting=f"trigger = 0 AND {_RUNS}"),
    Wait(
        "responses",
        "id",
        "deliver_after",
        "failed_at",
        # The second: retried by hand, and due at that instant.
        waiting="status = 'pending' AND (failure IS NOT NULL OR deliver_after = failed_at)",
        found_by="responses_delayed",
    ),
    Wait("responses", "id", "lease", longest=":lease", waiting="status = 'delivering'"),
    Wait("chats", "id", "not_before", "held_at", waiting=_HAS_ANSWERS),
    Wait("albums", "id", "due_at", "updated_at", waiting="status = 'gathering'"),
    Wait("agent_pauses", "agent", "check_at", longest=str(agent_pauses.LONGEST_CHECK_WAIT_MS)),
    Wait("agent_pauses", "agent", "until", "since", waiting="code = 'quota'"),
    Wait("channel_outages", "channel", "probe_at", longest=str(outages.LONGEST_PROBE_WAIT_MS)),
    Wait("channel_pauses", "channel", "check_at", longest=str(pauses.LONGEST_CHECK_WAIT_MS)),
    Wait("accounts", "name", "retry_at", longest=str(accounts.LONGEST_RETRY_WAIT_MS)),
)


def count(conn: apsw.Connection, *, lease_ms: int, now_ms: int) -> int:
    """How many rows wait longer than they asked for. It only reads."""
    values = {"lease": lease_ms, "now": now_ms, "limit": -1}
    return sum(len(rows(conn, wait.found, values)) for wait in WAITS)


def bound(conn: apsw.Connection, *, lease_ms: int, now_ms: int, limit: int) -> int:
    """Let up to *limit* of these rows wait as long as they asked for, from now on; how many."""
    moved = 0
    for wait in WAITS:
        conn.execute(wait.moved, {"lease": lease_ms, "now": now_ms, "limit": limit - moved})
        moved += conn.changes()
    return moved
