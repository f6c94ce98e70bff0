"""Approvals: something waits for somebody's yes or no, until an instant.

::

    request ──> pending ──decide──> approved | refused
                   └────expire────> expired

A decision is one UPDATE that expects a pending approval: of two that come at once, one finds it decided. What follows
from a yes belongs into the same transaction.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import apsw

from shared import ids
from shared.db import events
from shared.db.connection import rows
from shared.errors import NotFound, WrongState


class Approval(NamedTuple):
    """A row of ``approvals``. *kind* says what it is about, *payload* what is to be done on a yes."""

    approval_id: str
    kind: str
    agent: str | None
    payload: dict[str, Any]
    status: str
    decided_by: str | None
    expires_at: int
    created_at: int


def _approval(row: tuple[Any, ...]) -> Approval:
    return Approval._make((*row[:3], json.loads(row[3]), *row[4:]))


def request(
    conn: apsw.Connection,
    kind: str,
    payload: Mapping[str, Any],
    *,
    agent: str | None = None,
    expires_at: int,
    now_ms: int,
) -> str:
    """Ask for somebody's yes or no; the approval's id."""
    approval_id = ids.new("approval")
    conn.execute(
        """
        INSERT INTO approvals (approval_id, kind, agent, payload, expires_at, created_at, updated_at)
        VALUES (:approval_id, :kind, :agent, :payload, :expires_at, :now, :now)
        """,
        {
            "approval_id": approval_id,
            "kind": kind,
            "agent": agent,
            "payload": json.dumps(payload),
            "expires_at": expires_at,
            "now": now_ms,
        },
    )
    _tell(conn, "approval_requested", (approval_id, kind, agent), now_ms=now_ms)
    return approval_id


def get(conn: apsw.Connection, approval_id: str) -> Approval | None:
    """The approval, or None."""
    found = rows(
        conn,
        """
        SELECT approval_id, kind, agent, payload, status, decided_by, expires_at, created_at
          FROM approvals
         WHERE approval_id = :id
        """,
        {"id": approval_id},
    )
    return _approval(found[0]) if found else None


def decide(
    conn: apsw.Connection, approval_id: str, *, is_approved: bool, decided_by: str | None, now_ms: int
) -> Approval:
    """Somebody has said yes or no; the approval as it is now.

    Raises:
        NotFound: no such approval.
        WrongState: it is decided already, or its time is over.
    """
    found = rows(
        conn,
        """
        UPDATE approvals
           SET status = :status, decided_by = :decided_by, updated_at = :now
         WHERE approval_id = :id AND status = 'pending' AND expires_at > :now
        RETURNING approval_id, kind, agent, payload, status, decided_by, expires_at, created_at
        """,
        {
            "status": "approved" if is_approved else "refused",
            "decided_by": decided_by,
            "now": now_ms,
            "id": approval_id,
        },
    )
    if not found:
        known = get(conn, approval_id)
        if known is None:
            raise NotFound(f"no approval {approval_id!r}")
        raise WrongState(f"approval {approval_id} is {'too old' if known.status == 'pending' else known.status}")
    decided = _approval(found[0])
    _tell(conn, f"approval_{decided.status}", decided[:3], now_ms=now_ms)
    return decided


EXPIRE = """
    UPDATE approvals
       SET status = 'expired', updated_at = :now
     WHERE id IN (SELECT id
                    FROM approvals
                   WHERE status = 'pending' AND expires_at <= :now
                   ORDER BY expires_at
                   LIMIT :limit)
    RETURNING approval_id, kind, agent
"""


def expire(conn: apsw.Connection, *, limit: int, now_ms: int) -> int:
    """Give up to *limit* approvals up whose time is over; how many."""
    found = rows(conn, EXPIRE, {"now": now_ms, "limit": limit})
    for each in sorted(found, key=lambda row: row[0]):
        _tell(conn, "approval_expired", each, now_ms=now_ms)
    return len(found)


def _tell(conn: apsw.Connection, type_: str, of: tuple[str, str, str | None], *, now_ms: int) -> None:
    approval_id, kind, agent = of
    events.append(conn, type_, now_ms=now_ms, agent=agent, data={"approval": approval_id, "kind": kind})
