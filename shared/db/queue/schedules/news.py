"""Whether something has happened for an agent since a schedule asked it last. Only reads."""

from collections.abc import Sequence

import apsw

from shared.db.engine.connection import rows, scalar

_LOOKED_AT = 500  # the agent's newest lines of history
_RUNS = 20

_BEFORE = """
    SELECT r.message_id, r.started_at
      FROM schedule_runs r
     WHERE r.series_id = :series AND r.message_id <> :message
     ORDER BY r.id DESC
     LIMIT :limit
"""

_WHY_NOT_RUN = """
    SELECT data ->> '$.reason'
      FROM events
     WHERE message_id = :message AND type <> 'message_received' AND type <> 'chain_step_start'
       AND type <> 'chain_step_done' AND type <> 'response_ready' AND type <> 'response_acked'
       AND type = 'turn_not_run'
     ORDER BY id DESC
     LIMIT 1
"""

_HAS_NEWS = """
    SELECT EXISTS (SELECT 1
                     FROM (SELECT message_id, created_at
                             FROM agent_messages
                            WHERE agent_id = :agent
                            ORDER BY id DESC
                            LIMIT :looked_at)
                    WHERE created_at > :since AND message_id NOT GLOB 'task_*')
        OR EXISTS (SELECT 1
                     FROM messages
                    WHERE agent = :agent AND trigger = 1 AND (status = 'pending' OR status = 'processing')
                      AND kind <> 'task')
        OR EXISTS (SELECT 1
                     FROM sessions s
                     JOIN messages m ON m.session_id = s.id AND m.trigger = 0
                      AND (m.status = 'pending' OR m.status = 'processing')
                    WHERE s.agent = :agent AND m.created_at > :since)
"""


def since(conn: apsw.Connection, series_id: str, message_id: str, *, made_ms: int, without: Sequence[str]) -> int:
    """The instant, in ms UTC, up to which the runs before this one have looked.

    Args:
        made_ms: when the occurrence was made, for a schedule that has not run yet.
        without: a run that was left out for another reason than these has looked at nothing.
    """
    looked_ms = made_ms
    for message, started_ms in rows(conn, _BEFORE, {"series": series_id, "message": message_id, "limit": _RUNS}):
        looked_ms = started_ms
        why = scalar(conn, _WHY_NOT_RUN, {"message": message})
        if why is None or why in without:
            break
    return looked_ms


def has_come(conn: apsw.Connection, agent: str, *, since_ms: int) -> bool:
    """Whether something was said to or by the agent since, or waits for it; its own tasks don't count."""
    return bool(scalar(conn, _HAS_NEWS, {"agent": agent, "since": since_ms, "looked_at": _LOOKED_AT}))
