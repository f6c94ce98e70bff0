"""A message cancelled by hand. The caller owns the transaction, and kicks ``dispatch``."""

import apsw

from shared.db.queue import claims, messages, spoken
from shared.db.queue.messages import MessageRef
from shared.queue import endings, turns


def cancel(conn: apsw.Connection, row_id: int, *, reason: str, is_running: bool = False, now_ms: int) -> MessageRef:
    """No turn takes the message (again). A turn that has it loses its claim on the whole batch.

    The other messages of that batch are pending again; but if the turn had spoken they end, as P7 says, unless the
    agent's row lets them go on.

    Args:
        is_running: only a message that a turn has is cancelled.

    Raises:
        NotFound: there is no such message.
        WrongState: the message is in another state.
    """
    held = claims.holding(conn, row_id)
    change = messages.cancel_running if is_running else messages.cancel
    cancelled = change(conn, row_id, reason=reason, now_ms=now_ms)
    endings.enqueue_for(conn, row_id, now_ms=now_ms)
    if held is not None and spoken.has_spoken(conn, held.token):
        turns.end_others(conn, held, row_id, reason=reason, now_ms=now_ms)
    return cancelled
