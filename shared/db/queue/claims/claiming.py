"""Claims a batch, keeps it, and adds to it what comes in about its messages."""

import json
from collections.abc import Iterable, Sequence
from typing import Protocol

import apsw

from shared.core.content import private_to
from shared.db.engine.connection import rows
from shared.db.queue import events
from shared.db.queue.claims.batch import due_batch, may_join
from shared.db.queue.claims.rows import Claim, check_all
from shared.db.queue.message_row import COLUMNS, Message, message_of
from shared.db.queue.schedules import schedule_runs

CONTEXT = f"""
    SELECT {COLUMNS}
      FROM messages
     WHERE session_id = :session AND status = 'pending' AND trigger = 0
     ORDER BY id DESC
     LIMIT :limit
"""

# The rows are read before: RETURNING them takes three times as long as the update.
_CLAIM = """
    UPDATE messages
       SET status = 'processing', claimed_by = :token, lease = :lease, updated_at = :now
     WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'pending'
"""


class PassOver(Protocol):
    """Ends or moves the occurrences of schedules that may not begin any more."""

    def __call__(self, conn: apsw.Connection, row_ids: Sequence[int], *, now_ms: int) -> bool:
        """Whether one of these rows was such an occurrence; it is not due now."""


def claim(
    conn: apsw.Connection,
    agent: str,
    session_id: int,
    *,
    token: str,
    now_ms: int,
    lease_ms: int,
    limit: int,
    pass_over: PassOver | None = None,
) -> Claim | None:
    """Claim the session's due messages, oldest first, then its newest context, up to *limit*; None: nothing is due.

    Args:
        pass_over: takes occurrences of schedules out, so that what is due is looked for once more.

    Raises:
        RowInvalid: one of these messages can't be read.
        ClaimLost: outside a write transaction, another process claimed some of them meanwhile.
    """
    batch = due_batch(conn, agent, session_id, now_ms=now_ms, limit=limit)
    while pass_over and (ids := [each.id for each in _planned(batch)]) and pass_over(conn, ids, now_ms=now_ms):
        batch = due_batch(conn, agent, session_id, now_ms=now_ms, limit=limit)
    if not batch:
        return None
    first = min(batch)
    if len(batch) < limit:
        context = rows(conn, CONTEXT, {"session": session_id, "limit": limit - len(batch)})
        allowed = (None, private_to(batch[0].content))
        batch += [each for each in map(message_of, context) if private_to(each.content) in allowed]
    claim = Claim(token, session_id, agent, tuple(sorted(batch)))
    conn.execute(_CLAIM, {"ids": claim.ids, "token": token, "lease": now_ms + lease_ms, "now": now_ms})
    check_all(claim, conn.changes())
    for each in _planned(claim.batch):
        schedule_runs.begin(conn, "messages", each.id, now_ms=now_ms)
    data: events.EventData = {
        "batch": [message.message_id for message in claim.batch],
        "attempt": first.retry_count + 1,
    }
    events.append_about(conn, "chain_step_start", first, data, now_ms=now_ms)
    return claim


def _planned(batch: Iterable[Message]) -> list[Message]:
    """The occurrences of schedules in the batch."""
    return [each for each in batch if each.scheduled_at is not None and each.series_id is not None]


def renew(conn: apsw.Connection, claim: Claim, *, lease_until: int) -> None:
    """Extend the lease of a turn that still runs.

    Raises:
        ClaimLost: the turn no longer holds the rows.
    """
    conn.execute(
        """
        UPDATE messages
           SET lease = :lease
         WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'processing' AND claimed_by = :token
        """,
        {"lease": lease_until, "ids": claim.ids, "token": claim.token},
    )
    check_all(claim, conn.changes())


# -- what comes in while the turn runs

ABOUT_BATCH = """
    SELECT id, files <> '[]'
      FROM messages
     WHERE session_id = :session AND status = 'pending' AND trigger = 0 AND id > :after
       AND CASE WHEN json_valid(content)
                THEN content ->> '$.about.as' IN ('edits', 'deletes')
                     AND content ->> '$.about.message_id' IN (SELECT value FROM json_each(:batch))
           END
     ORDER BY id
     LIMIT 1
"""

_HAS_FILES = "SELECT id, files <> '[]' FROM messages WHERE id = :id"

_JOIN = f"""
    UPDATE messages
       SET status = 'processing', claimed_by = :token, updated_at = :now,
           lease = (SELECT lease FROM messages WHERE id = :first)
     WHERE id = :id AND status = 'pending' AND (trigger = 0 OR while_busy = 'steer') AND files = '[]'
       AND EXISTS (SELECT 1 FROM messages WHERE id = :first AND status = 'processing' AND claimed_by = :token)
    RETURNING {COLUMNS}
"""


def next_to_tell(conn: apsw.Connection, claim: Claim, *, now_ms: int) -> int | None:
    """The row of what the turn is to be told next; None: there is nothing.

    That is an edit or deletion of its messages, or what its wiring steers into it; the oldest first. One with files
    can't be told, and later ones wait behind it, so that the agent reads them in their order.
    """
    batch = json.dumps([message.message_id for message in claim.held])
    key = {"session": claim.session_id, "after": claim.held[-1].id, "batch": batch}
    found = rows(conn, ABOUT_BATCH, key)
    steered = may_join(conn, claim, "steer", now_ms=now_ms, limit=len(claim.asked) + 1)
    found += rows(conn, _HAS_FILES, {"id": steered[0].id}) if steered else []
    first = min(found, default=None)
    return None if first is None or first[1] else int(first[0])


def join(conn: apsw.Connection, claim: Claim, row_id: int, *, now_ms: int) -> Message | None:
    """The turn holds this row too; the row as it is now. None: the row waits no more, or the turn lost its own."""
    key = {"id": row_id, "first": claim.batch[0].id, "token": claim.token, "now": now_ms}
    found = rows(conn, _JOIN, key)
    if not found:
        return None
    joined = message_of(found[0])
    if joined.trigger:
        events.append_about(conn, "message_steered", joined, {"into": claim.asked[0].message_id}, now_ms=now_ms)
    return joined
