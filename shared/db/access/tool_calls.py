"""Tool calls that did something, with the answer that the agent got: one row for each call of a turn."""

import apsw

from shared.db.engine.connection import rows, scalar

_PUT = """
    INSERT INTO tool_calls (turn, key, tool, answer, created_at)
    VALUES (:turn, :key, :tool, :answer, :now)
"""

PRUNE = """
    DELETE FROM tool_calls
     WHERE (turn, key) IN (SELECT turn, key
                             FROM tool_calls t
                            WHERE created_at < :older
                              AND NOT EXISTS (SELECT 1 FROM spoken WHERE turn = t.turn)
                            ORDER BY created_at
                            LIMIT :limit)
"""


def find(conn: apsw.Connection, turn: str, key: str) -> str | None:
    """What the agent was told when the turn made this call, or None: it did not."""
    found: str | None = scalar(
        conn, "SELECT answer FROM tool_calls WHERE turn = :turn AND key = :key", {"turn": turn, "key": key}
    )
    return found


def put(conn: apsw.Connection, turn: str, key: str, tool: str, answer: str, *, now_ms: int) -> None:
    """Keep the answer of a call.

    Raises:
        apsw.ConstraintError: the turn made this call already.
    """
    rows(conn, _PUT, {"turn": turn, "key": key, "tool": tool, "answer": answer, "now": now_ms})


def prune(conn: apsw.Connection, *, older_than_ms: int, limit: int) -> int:
    """Forget up to *limit* calls made before that instant, of turns whose story is forgotten; how many."""
    rows(conn, PRUNE, {"older": older_than_ms, "limit": limit})
    return conn.changes()
