"""A channel whose token the platform refuses: it sends nothing until a check finds the token accepted."""

import apsw

from shared.core.errors import TokenRefused
from shared.core.text import redaction
from shared.core.time import backoff
from shared.db.platforms import channel_pauses
from shared.db.platforms.channel_pauses import ChannelPause
from shared.db.queue import responses
from shared.db.queue.responses import Response

_FIRST_CHECK_MS = 60_000  # of a token that the platform refused, and the longest wait between two checks
LONGEST_CHECK_WAIT_MS = 10 * 60_000


def hold(conn: apsw.Connection, response: Response, error: TokenRefused, *, now_ms: int) -> bool:
    """The platform refuses our token: pause the channel; the response waits in its place. False: it was paused before.

    Raises:
        ClaimLost: the claim lost its lease; the caller's transaction must roll back.
    """
    responses.release(conn, response)
    return pause(conn, response.channel, error, now_ms=now_ms)


def pause(conn: apsw.Connection, channel: str, error: TokenRefused, *, now_ms: int) -> bool:
    """The platform refuses our token: the channel sends nothing until it is accepted. False: it was paused before."""
    reason = redaction.redact(str(error))
    return channel_pauses.pause(conn, channel, reason, check_at=now_ms + _FIRST_CHECK_MS, now_ms=now_ms)


def check_again(conn: apsw.Connection, pause: ChannelPause, reason: str, *, now_ms: int) -> None:
    """The token of a paused channel was not accepted: check it again later, the longer the pause the later."""
    wait_ms = backoff.outage_delay_ms(
        now_ms - pause.paused_at, shortest_ms=_FIRST_CHECK_MS, longest_ms=LONGEST_CHECK_WAIT_MS
    )
    channel_pauses.postpone(conn, pause.channel, redaction.redact(reason), check_at=now_ms + wait_ms)
