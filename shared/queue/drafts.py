"""A person presses the stop button of a draft: the turn that it previews is cancelled."""

import re

import apsw

from shared.db.platforms import drafts
from shared.db.queue import claims
from shared.queue import stops

_ID = re.compile(r"[0-9]{1,10}")

STOPPED = "the person pressed the stop button"


def stop(conn: apsw.Connection, channel: str, platform_id: str, draft_id: object, *, now_ms: int) -> int:
    """Cancel the messages of the turn whose draft this chat was shown, and what else waits of their senders; how many.

    0: the draft is unknown, or its turn is over.

    The caller kicks ``dispatch``, which then ends the agent.
    """
    if not isinstance(draft_id, int | str) or not _ID.fullmatch(str(draft_id)):
        return 0
    draft = drafts.find(conn, int(draft_id), channel=channel, platform_id=platform_id)
    held = claims.of_turn(conn, draft.agent, draft.session_id, draft.turn) if draft is not None else None
    if held is None:
        return 0
    return sum(stops.stop_turn(conn, held, reason=STOPPED, now_ms=now_ms))
