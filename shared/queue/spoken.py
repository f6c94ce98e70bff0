"""What a turn does for good while it runs: it says something to people, or acts in another way.

Each is committed before the agent is told so, and a turn that has spoken is not run again by itself (P7); ``turns`` has
what follows instead. The caller owns the transaction, commits it durably before it tells the agent, and kicks
``deliver``.
"""

import apsw

from shared.core.errors import WrongState
from shared.db.queue import agent_messages, responses, spoken
from shared.db.queue.agent_messages import AgentMessage
from shared.db.queue.claims import Claim
from shared.db.queue.responses import NewResponse


def say(conn: apsw.Connection, claim: Claim, new: NewResponse, *, key: str, now_ms: int) -> int:
    """Store *new*, which the running turn says to people; the row of the response. The turn has spoken.

    Args:
        key: of the call in its turn. A second call with it stores nothing, and returns the row of the first.

    Raises:
        ClaimLost: the turn no longer holds its messages; the caller's transaction must roll back.
        WrongState: the key belongs to an act of another kind.
    """
    story = spoken.mark(conn, claim)
    before = spoken.find(conn, claim.token, key)
    if before is not None:
        if before.response is None:
            raise WrongState(
                f"the call {key!r} of turn {claim.token} said nothing the first time: use a key of its own"
            )
        return before.response
    row_id = responses.enqueue(conn, new, now_ms=now_ms)
    spoken.add(conn, claim.token, key, story, row_id, now_ms=now_ms)
    line = AgentMessage(
        claim.agent,
        "assistant",
        new.channel,
        claim.agent,
        new.message_id,
        new.message,
        now_ms,
        claim.session_id,
        claim.asked[0].sender_id,
    )
    agent_messages.append(conn, [line])
    return row_id


def act(conn: apsw.Connection, claim: Claim, *, key: str, now_ms: int) -> bool:
    """The running turn does something that a second run would do twice: it counts as having spoken.

    Args:
        key: of the call in its turn.

    Returns:
        False: this call did it before, and the caller does nothing.

    Raises:
        ClaimLost: the turn no longer holds its messages; the caller's transaction must roll back.
    """
    story = spoken.mark(conn, claim)
    if spoken.find(conn, claim.token, key) is not None:
        return False
    spoken.add(conn, claim.token, key, story, None, now_ms=now_ms)
    return True
