"""What a platform that can't work means for its channel: it sends nothing but probes, with growing pauses."""

from typing import Protocol

import apsw

from shared.core.errors import OutcomeUnknown, PlatformDown
from shared.core.time import backoff
from shared.db.platforms import channel_outages
from shared.db.platforms.channel_outages import ChannelOutage
from shared.db.queue.responses import Response

LONGEST_PROBE_WAIT_MS = 60_000  # one call costs little, and people wait for their answers


def next_probe_ms(elapsed_ms: int, *, base_ms: int, jitter: float) -> int:
    """The wait before the next probe of an outage that has lasted *elapsed_ms*. Pure."""
    shortest_ms = min(base_ms, LONGEST_PROBE_WAIT_MS)
    wait_ms = backoff.outage_delay_ms(elapsed_ms, shortest_ms=shortest_ms, longest_ms=LONGEST_PROBE_WAIT_MS)
    return backoff.spread_ms(wait_ms, jitter=jitter)


class ProbePolicy(Protocol):
    """The shortest pause between two probes, and what spreads them; see ``DeliveryPolicy``."""

    @property
    def base_ms(self) -> int: ...

    @property
    def jitter(self) -> float: ...


def note(
    conn: apsw.Connection, channel: str, error: PlatformDown, reason: str, policy: ProbePolicy, *, now_ms: int
) -> ChannelOutage:
    """The platform failed: begin the channel's outage, or extend it; the outage as it is now.

    Nothing was tried while the machine slept, so an outage begins anew after that.
    """
    found = channel_outages.get(conn, channel)
    slept = found is not None and backoff.has_slept(found.probe_at, now_ms=now_ms)
    began_at = now_ms if found is None or slept or found.began_at > now_ms else found.began_at
    probe_at = now_ms + next_probe_ms(now_ms - began_at, base_ms=policy.base_ms, jitter=policy.jitter)
    outage = ChannelOutage(channel, began_at, error.code, reason, probe_at)
    if not channel_outages.begin(conn, outage, now_ms=now_ms):
        channel_outages.extend(conn, outage)
    return outage


def own_failure(conn: apsw.Connection, response: Response, error: Exception) -> Exception:
    """*error*, or what it means where the platform works for others and fails for this response: a counted attempt.

    Otherwise one response that a platform can't digest would hold up its channel again and again.
    """
    if not isinstance(error, PlatformDown) or error.code != "server_error" or response.unsent_since is None:
        return error
    if not channel_outages.ended_since(conn, response.channel, since_ms=response.unsent_since):
        return error
    return OutcomeUnknown(str(error), is_repeatable=not error.may_have_arrived)
