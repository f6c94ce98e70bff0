"""What an agent reads when a turn goes on with what an earlier one said: P7 wants nothing said twice."""

import apsw

from shared.agents.base import TurnMessage
from shared.db.queue import spoken
from shared.db.queue.claims import Claim

_MOST_TEXTS = 50
_LONGEST = 2000  # characters of each text

_HEAD = (
    "Your last turn about these messages ended early, after it had already said or done something. People have what it"
    " said: do not say or do it again, and go on from there."
)


def note(reader: apsw.Connection, claim: Claim, *, now_ms: int) -> TurnMessage | None:
    """The note for the agent, as a line of context; None: no earlier turn said anything about these messages."""
    if not claim.goes_on:
        return None
    first = claim.asked[0]
    texts = spoken.said(reader, first.spoken or "", limit=_MOST_TEXTS)
    said = [f"{place}. {_shown(text)}" for place, text in enumerate(texts, 1)]
    return TurnMessage(
        message_id=first.message_id,
        kind="system",
        sender="",
        text="\n".join([_HEAD, *said]),
        at_ms=now_ms,
        reply_to=None,
        is_context=True,
    )


def _shown(text: str | None) -> str:
    if text is None:
        return "(a tool call that was more than words)"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
