"""People write in bursts: a turn waits until the sender of its first line has been still for a while.

Only the first line of a burst waits, until ``gathers_until``, and it holds its session as a retry does. The lines that
follow wait behind it, so they keep their order and share its turn. The caller owns the transaction.
"""

import apsw

from shared.db.queue.message_row import LONGEST_DEBOUNCE_MS
from shared.db.queue.messages.storing import NewMessage

# The oldest message that waits for a turn. What is planned for later waits for its instant.
_FIRST = """
    SELECT id
      FROM messages
     WHERE agent = :agent AND session_id = :session AND trigger = 1 AND (status = 'pending' OR status = 'processing')
       AND status = 'pending' AND (process_after IS NULL OR failure IS NOT NULL)
     ORDER BY id
     LIMIT 1
"""

GO_ON = f"""
    UPDATE messages
       SET gathers_until = min(:until, created_at + {LONGEST_DEBOUNCE_MS})
     WHERE id = ({_FIRST})
       AND (id = :row OR (gathers_until IS NOT NULL AND channel = :channel AND sender_id IS :sender))
"""  # noqa: S608
END = f"""
    UPDATE messages
       SET gathers_until = NULL
     WHERE id = ({_FIRST}) AND gathers_until IS NOT NULL
"""  # noqa: S608


def go_on_burst(conn: apsw.Connection, row_id: int, new: NewMessage, *, debounce_ms: int, now_ms: int) -> None:
    """*new*, just stored in this row, begins a burst, or is the next line of one. Behind another message it is none."""
    line = {"row": row_id, "channel": new.channel, "sender": new.sender_id, "until": now_ms + debounce_ms}
    conn.execute(GO_ON, {"agent": new.agent, "session": new.session_id, **line})


def end_burst(conn: apsw.Connection, new: NewMessage) -> None:
    """*new* waits for nobody, so what waits before it does not either."""
    conn.execute(END, {"agent": new.agent, "session": new.session_id})
