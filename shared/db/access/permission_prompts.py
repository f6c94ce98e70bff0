"""The approvals of kind ``tool``: what the program of a running turn asks for. A yes is for that turn and call alone.

::

    pending ──yes──> approved ── the turn takes it ──> used
       │                 └────── the turn is over ───> lost: nothing was done
       └──no, late, turn over──> refused, expired
"""

import apsw

from shared.db.engine.connection import rows

KIND = "tool"

_TAKE = """
    UPDATE approvals
       SET payload = json_set(payload, '$.used_at', :now)
     WHERE approval_id = :id AND kind = 'tool' AND status = 'approved'
       AND payload ->> '$.used_at' IS NULL AND payload ->> '$.lost_at' IS NULL
"""

_LOSE = _TAKE.replace("'$.used_at', :now", "'$.lost_at', :now")

UNSETTLED = """
    SELECT approval_id
      FROM approvals INDEXED BY approvals_pending
     WHERE status = 'pending' AND kind = 'tool'
     UNION ALL
    SELECT approval_id
      FROM approvals INDEXED BY approvals_ended
     WHERE status <> 'pending' AND status = 'approved' AND kind = 'tool' AND updated_at >= :since
       AND payload ->> '$.used_at' IS NULL AND payload ->> '$.lost_at' IS NULL
"""


def take(conn: apsw.Connection, approval_id: str, *, now_ms: int) -> bool:
    """The turn takes the yes, before its program is told; False: it was taken or lost already."""
    conn.execute(_TAKE, {"id": approval_id, "now": now_ms})
    return conn.changes() == 1


def lose(conn: apsw.Connection, approval_id: str, *, now_ms: int) -> bool:
    """The turn ended before it took the yes; False: it took it, or this is known."""
    conn.execute(_LOSE, {"id": approval_id, "now": now_ms})
    return conn.changes() == 1


def unsettled(conn: apsw.Connection, *, since_ms: int) -> list[str]:
    """The ids of prompts that are pending, or were allowed after *since_ms* and not taken."""
    return [str(approval_id) for (approval_id,) in rows(conn, UNSETTLED, {"since": since_ms})]
