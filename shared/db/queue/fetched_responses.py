"""Responses that a program outside fetches and delivers: those that no adapter of ours sends. They have no lease."""

import json
from collections.abc import Collection

import apsw

from shared.core.errors import NotFound, WrongState
from shared.db.engine.connection import rows
from shared.db.queue import events, schedule_runs


def ack(conn: apsw.Connection, response_id: int, *, adapters: Collection[str], now_ms: int) -> str:
    """The program has delivered it; saying so twice is fine. Returns its channel.

    Args:
        adapters: the channels whose chats we answer ourselves.

    Raises:
        NotFound: there is no such response.
        WrongState: it is for an adapter of ours to deliver, or it is dead.
    """
    found = rows(
        conn,
        """
        SELECT status, chat_id, message_id, agent, channel, series_id, scheduled_at
          FROM responses
         WHERE id = :id
        """,
        {"id": response_id},
    )
    if not found:
        raise NotFound(f"no response {response_id}")
    ((status, chat_id, message_id, agent, channel, series_id, scheduled_at),) = found
    if status == "acked":
        return str(channel)
    if chat_id is not None and channel in adapters:
        raise WrongState(f"response {response_id} is sent by the adapter of {channel}: nobody else can acknowledge it")
    if status != "pending":
        raise WrongState(f"response {response_id} is {status}: it can't be acknowledged")
    conn.execute(
        "UPDATE responses SET status = 'acked', acked_at = :now, last_error = NULL WHERE id = :id",
        {"now": now_ms, "id": response_id},
    )
    if series_id is not None and scheduled_at is not None:
        schedule_runs.begin(conn, series_id, message_id, due_ms=scheduled_at, now_ms=now_ms)
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


NOBODY_FETCHED = "nobody fetched it in time"

_STEP = """
    SELECT id, message_id, agent, channel,
           status = 'pending' AND max(created_at, ifnull(deliver_after, 0)) < :cutoff
           AND (chat_id IS NULL OR channel NOT IN (SELECT value FROM json_each(:adapters))),
           status = 'dead' AND last_error = :reason AND created_at < :forgotten,
           created_at < :cutoff
      FROM responses
     WHERE id > :after
     ORDER BY id
     LIMIT :limit
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
    """One step of a walk over the responses: what nobody fetched since *older_than_ms* is dead, and later forgotten.

    What an adapter of ours sends is left to it, and so is what is planned for later.

    Args:
        forget_older_than_ms: what was given up so, and is older than this, is deleted.

    Returns:
        How many were given up or forgotten, and the row to go on after, 0 at the end.
    """
    found = rows(
        conn,
        _STEP,
        {
            "adapters": json.dumps(sorted(adapters)),
            "reason": NOBODY_FETCHED,
            "cutoff": older_than_ms,
            "forgotten": forget_older_than_ms,
            "after": after_id,
            "limit": limit,
        },
    )
    ended = [(id_, message_id, agent, channel) for id_, message_id, agent, channel, is_over, *_ in found if is_over]
    gone = [row[0] for row in found if row[5]]
    conn.execute(
        """
        UPDATE responses
           SET status = 'dead', last_error = :reason, deliver_after = NULL
         WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'pending'
        """,
        {"ids": json.dumps([id_ for id_, *_ in ended]), "reason": NOBODY_FETCHED},
    )
    data = json.dumps({"reason": NOBODY_FETCHED})
    events.append_many(
        conn,
        [
            ("response_dead", message_id, id_, agent, channel, None, data, now_ms)
            for id_, message_id, agent, channel in ended
        ],
    )
    conn.execute(
        """
        DELETE FROM responses
         WHERE id IN (SELECT value FROM json_each(:ids)) AND recurrence IS NULL AND id < (SELECT max(id) FROM responses)
        """,
        {"ids": json.dumps(gone)},
    )
    is_more = len(found) == limit and bool(found[-1][6])
    return len(ended) + conn.changes(), found[-1][0] if is_more else 0
