"""Responses that a program outside fetches and delivers: those that no adapter of ours sends. They have no lease."""

from collections.abc import Collection

import apsw

from shared.db import events, schedule_runs
from shared.db.connection import rows
from shared.errors import NotFound, WrongState


def ack(conn: apsw.Connection, response_id: int, *, adapters: Collection[str], now_ms: int) -> bool:
    """The program has delivered it; whether that is news.

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
        return False
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
    return True
