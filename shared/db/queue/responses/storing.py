"""Stores responses, counts and prunes them."""

import json
from collections.abc import Sequence

import apsw

from shared.db.engine.connection import insert_into, rows, scalar
from shared.db.queue import events
from shared.db.queue.events import NewEvent
from shared.db.queue.responses.rows import NewResponse, Response
from shared.db.queue.walks import old_rows_follow

_INSERT = insert_into("responses", ("created_at", *NewResponse._fields))


def enqueue(conn: apsw.Connection, new: NewResponse, *, now_ms: int) -> int:
    """Store the response; its id."""
    (row_id,) = enqueue_many(conn, [new], now_ms=now_ms)
    return row_id


def enqueue_many(conn: apsw.Connection, news: Sequence[NewResponse], *, now_ms: int) -> Sequence[int]:
    """Store the responses, in order; returns their ids, which are consecutive because writers are serialised.

    Each is a millisecond younger than the one before: TinyAGI's office has only the instants to put them in order.
    """
    if not news:
        return ()
    conn.executemany(_INSERT, [(at_ms, *new) for at_ms, new in enumerate(news, now_ms)])
    newest = conn.last_insert_rowid()
    ids_ = range(newest - len(news) + 1, newest + 1)
    events.append_many(
        conn,
        [
            NewEvent("response_ready", now_ms + place, new.message_id, id_, new.agent, new.channel, new.session_id)
            for place, (id_, new) in enumerate(zip(ids_, news, strict=True))
        ],
    )
    return ids_


def was_answered(conn: apsw.Connection, response: Response) -> bool:
    """Whether a response to the same platform event has gone out already, of this agent or another."""
    found = scalar(
        conn,
        """
        SELECT EXISTS (SELECT 1
                         FROM responses r
                        WHERE r.in_reply_to = :message AND r.parts <> '[]' AND r.content ->> '$.reaction' IS NULL)
            OR EXISTS (SELECT 1
                         FROM messages mine
                         JOIN messages m ON m.channel = mine.channel AND m.event_key = mine.event_key
                         JOIN responses r ON r.in_reply_to = m.id
                        WHERE mine.id = :message AND r.parts <> '[]' AND r.content ->> '$.reaction' IS NULL)
        """,
        {"message": response.in_reply_to},
    )
    return bool(found)


def sent_as(conn: apsw.Connection, response_id: int, *, chat_id: int) -> str | None:
    """The platform's id of the last part of a response to that chat, or None if it is not known."""
    found: str | None = scalar(
        conn,
        "SELECT parts ->> '$[#-1]' FROM responses WHERE id = :id AND chat_id = :chat",
        {"id": response_id, "chat": chat_id},
    )
    return found


WAS_SAID = """
    SELECT 1
      FROM responses
     WHERE in_reply_to = :asked AND message = :text AND status <> 'dead' AND content ->> '$.reaction' IS NULL
     LIMIT 1
"""


def was_said(conn: apsw.Connection, row_id: int, text: str) -> bool:
    """Whether the message in row *row_id* has a response of these words, which was sent or will be."""
    return bool(rows(conn, WAS_SAID, {"asked": row_id, "text": text}))


_OPEN_COUNT = """
    SELECT (SELECT count(*) FROM responses WHERE status = 'pending' OR status = 'delivering')
         - (SELECT count(*)
              FROM responses INDEXED BY responses_delayed
             WHERE deliver_after > :now AND status = 'pending' AND failure IS NULL)
"""


def open_count(conn: apsw.Connection, *, now_ms: int) -> int:
    """How many responses are pending or being delivered; not those that are planned for later."""
    count: int = scalar(conn, _OPEN_COUNT, {"now": now_ms})
    return count


def prune(conn: apsw.Connection, *, after_id: int, older_than_ms: int, limit: int) -> tuple[int, int]:
    """As ``messages.prune``: walk by id, delete responses acked before *older_than_ms*, keep the newest row.

    The card of a pending approval stays: the decision edits it. What a turn said stays while its message is open: the
    end of the turn asks whether it was said. The line of a turn stays until it is removed from its chat.
    """
    found = rows(
        conn,
        """
        SELECT id, created_at < :cutoff,
               status = 'acked' AND recurrence IS NULL AND acked_at < :cutoff
               AND id NOT IN (SELECT card FROM approvals WHERE status = 'pending' AND card IS NOT NULL)
               AND NOT EXISTS (SELECT 1
                                 FROM messages m
                                WHERE m.id = responses.in_reply_to
                                  AND (m.status = 'pending' OR m.status = 'processing'))
               AND id NOT IN (SELECT response FROM progress_lines UNION ALL SELECT changed_by FROM progress_lines)
          FROM responses
         WHERE id > :after AND id < (SELECT max(id) FROM responses)
         ORDER BY id
         LIMIT :limit
        """,
        {"after": after_id, "cutoff": older_than_ms, "limit": limit},
    )
    doomed = [id_ for id_, _, is_over in found if is_over]
    conn.execute("DELETE FROM responses WHERE id IN (SELECT value FROM json_each(:ids))", {"ids": json.dumps(doomed)})
    if len(found) < limit:
        return len(doomed), 0
    last, *_ = found[-1]
    if any(is_old for _, is_old, _ in found) or old_rows_follow(
        conn, "responses", after_id=last, older_than_ms=older_than_ms
    ):
        return len(doomed), last
    return len(doomed), 0
