"""What a turn does for good while it runs: it says something to people, or acts in another way.

Each is committed before the agent is told so, and a turn that has spoken is not run again by itself (P7). The caller
owns the transaction, and commits it durably before it tells the agent.
"""

import apsw

from shared.core.errors import ClaimLost
from shared.db.queue import claims, responses
from shared.db.queue.claims import Claim
from shared.db.queue.responses import NewResponse


def say(conn: apsw.Connection, claim: Claim, new: NewResponse, *, key: str, now_ms: int) -> int:
    """Store *new*, which the running turn says to people; the row of the response. The turn has spoken.

    Args:
        key: of the call in its turn; for the log and the row's reader. The caller knows repeated calls by it.

    Raises:
        ClaimLost: the turn no longer holds its messages; the caller's transaction must roll back.
    """
    act(conn, claim, key=key, now_ms=now_ms)
    return responses.enqueue(conn, new, now_ms=now_ms)


def act(conn: apsw.Connection, claim: Claim, *, key: str, now_ms: int) -> None:
    """The running turn does something that a second run would do twice: it counts as having spoken.

    Raises:
        ClaimLost: the turn no longer holds its messages; the caller's transaction must roll back.
    """
    if not claims.is_held(conn, claim):
        raise ClaimLost(f"turn {claim.token} no longer holds its messages")
