"""The name under which a turn's use of models is counted."""

from shared.core import hops
from shared.db.queue.claims import Claim
from shared.db.queue.sessions import Session
from shared.db.spending.usage import TurnName


def of(claim: Claim, session: Session | None) -> TurnName:
    """The name of the turn of *claim*; its cost counts for what began the chain of its first message."""
    first = claim.asked[0]
    return TurnName(
        claim.token,
        claim.agent,
        session.session_id if session is not None else "",
        tuple(each.message_id for each in claim.asked),
        hops.origin(first.content, first.message_id),
    )
