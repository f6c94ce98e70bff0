"""Fetched responses: an outside client fetches and delivers what no adapter of ours sends. They have no lease."""

import json
from collections.abc import Collection

import apsw

from shared.core.errors import NotFound, WrongState
from shared.db.engine.connection import rows
from shared.db.queue import events
from shared.db.queue.events import NewEvent
from shared.db.queue.schedules import schedule_runs
from shared.db.queue.walks import old_rows_follow

_ACK = """
    UPDATE responses
       SET status = 'acked', acked_at = :now, last_error = NULL, failure = NULL
     WHERE id = :id AND status = 'pending'
       AND (chat_id IS NULL
            OR substr(channel, 1, instr(channel || '.', '.') - 1) NOT IN (SELECT value FROM json_each(:adapters)))
    RETURNING message_id, agent, channel, series_id, scheduled_at
"""


def ack(conn: apsw.Connection, response_id: int, *, adapters: Collection[str], now_ms: int) -> str:
    """The client has delivered the response. A second call changes nothing. Returns the response's channel.

    Args:
        adapters: the platforms whose chats an adapter of ours serves.

    Raises:
        NotFound: there is no such response.
        WrongState: an adapter of ours delivers the response, or it is not pending.
    """
    found = rows(conn, _ACK, {"id": response_id, "adapters": json.dumps(sorted(adapters)), "now": now_ms})
    if not found:
        return _acked_before(conn, response_id)
    ((message_id, agent, channel, series_id, scheduled_at),) = found
    if series_id is not None and scheduled_at is not None:
        schedule_runs.begin(conn, "responses", response_id, now_ms=now_ms)
    events.append(
        conn,
        "response_acked",
        now_ms=now_ms,
        message_id=message_id,
        response_id=response_id,
        agent=agent,
        channel=channel,
    )
    return str(channel)


def _acked_before(conn: apsw.Connection, response_id: int) -> str:
    """The channel of a response that is acknowledged already; for any other, the reason why it can't be."""
    found = rows(conn, "SELECT status, channel FROM responses WHERE id = :id", {"id": response_id})
    if not found or found[0][0] == "deleted":
        raise NotFound(f"there is no response {response_id}")
    ((status, channel),) = found
    if status == "acked":
        return str(channel)
    if status == "pending":
        raise WrongState(
            f"response {response_id} goes out through the adapter of {channel}; no client can acknowledge it"
        )
    raise WrongState(f"response {response_id} is {status}: it can't be acknowledged")


NOT_FETCHED = "no client fetched it in time"

_STEP = """
    SELECT id, created_at < :cutoff AS is_old,
           status = 'pending' AND max(created_at, ifnull(deliver_after, 0)) < :cutoff
           AND (chat_id IS NULL
                OR substr(channel, 1, instr(channel || '.', '.') - 1) NOT IN (SELECT value FROM json_each(:adapters)))
           AS is_overdue,
           status = 'dead' AND failure = 'not_fetched' AND recurrence IS NULL AND created_at < :forgotten
           AS is_forgotten
      FROM responses
     WHERE id > :after
     ORDER BY id
     LIMIT :limit
"""

_GIVE_UP = """
    UPDATE responses
       SET status = 'dead', last_error = :reason, failure = 'not_fetched', deliver_after = NULL
     WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'pending'
    RETURNING id, message_id, agent, channel
"""

_FORGET = """
    DELETE FROM responses
     WHERE id IN (SELECT value FROM json_each(:ids)) AND id < (SELECT max(id) FROM responses)
"""


def give_up(
    conn: apsw.Connection,
    *,
    adapters: Collection[str],
    after_id: int,
    older_than_ms: int,
    forget_older_than_ms: int = 0,
    limit: int,
    now_ms: int,
) -> tuple[int, int]:
    """One step of a walk over the responses: end those that no client fetched in time, and delete old ones of these.

    Responses that an adapter of ours delivers stay as they are, and so do those that are planned for later.

    Args:
        older_than_ms: a response that is due since before this instant has not been fetched in time.
        forget_older_than_ms: responses that ended so, and are older than this instant, are deleted.

    Returns:
        How many responses ended or were deleted, and the row after which to go on (0: the end was reached).
    """
    found = rows(
        conn,
        _STEP,
        {
            "adapters": json.dumps(sorted(adapters)),
            "cutoff": older_than_ms,
            "forgotten": forget_older_than_ms,
            "after": after_id,
            "limit": limit,
        },
    )
    overdue = [id_ for id_, _, is_overdue, _ in found if is_overdue]
    forgotten = [id_ for id_, _, _, is_forgotten in found if is_forgotten]
    ended = sorted(rows(conn, _GIVE_UP, {"ids": json.dumps(overdue), "reason": NOT_FETCHED}))
    data = json.dumps({"reason": NOT_FETCHED, "failure": "not_fetched"})
    events.append_many(
        conn,
        [
            NewEvent("response_dead", now_ms, message_id, id_, agent, channel, data=data)
            for id_, message_id, agent, channel in ended
        ],
    )
    conn.execute(_FORGET, {"ids": json.dumps(forgotten)})
    deleted = conn.changes()
    if len(found) < limit:
        return len(ended) + deleted, 0
    last, is_old, *_ = found[-1]
    if is_old or old_rows_follow(conn, "responses", after_id=last, older_than_ms=older_than_ms):
        return len(ended) + deleted, last
    return len(ended) + deleted, 0
