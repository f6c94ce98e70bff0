"""The places of requests that strangers cause: the oldest that no approver is shown gives way to a newer one."""

from collections.abc import Sequence

import apsw

from shared.conversation.access import people, requests
from shared.db.access import approvals, dropped, held_events
from shared.db.access.approvals import Approval

_TOLD_EVERY_MS = 24 * 60 * 60 * 1000


def give_way(
    conn: apsw.Connection,
    oldest: Sequence[Approval],
    reason: str,
    digest: str,
    *,
    channel: str,
    agent: str | None = None,
    now_ms: int,
) -> bool:
    """End the requests *oldest*; an approver reads the *digest* once a day. Whether one was written to.

    Args:
        reason: why the held messages are dropped. The last record of the channel with it tells when the digest is due.
        agent: its approvers are told; None: those of everything.
    """
    told_at = dropped.last(conn, channel, reason)
    said = [end(conn, each, reason, "A newer request took its place.", now_ms=now_ms) for each in oldest]
    is_due = told_at is None or told_at <= now_ms - _TOLD_EVERY_MS
    return (is_due and _tell(conn, agent, channel, digest, now_ms=now_ms)) or any(said)


def end(conn: apsw.Connection, approval: Approval, reason: str, outcome: str, *, now_ms: int) -> bool:
    """End the request; whether its card was rewritten. Nobody is refused: the people may ask again."""
    approvals.withdraw(conn, approval=approval.id, why=reason, now_ms=now_ms)
    requests.drop_held(conn, approval, reason, now_ms=now_ms)
    held_events.forget(conn, approval.id)
    return requests.close_card(conn, approval, outcome, now_ms=now_ms)


def _tell(conn: apsw.Connection, agent: str | None, channel: str, text: str, *, now_ms: int) -> bool:
    """Tell the first approver whom a direct chat reaches; whether there was one."""
    approvers = people.approvers(conn, agent, channel=channel)
    return people.tell_first(conn, approvers, text, page=("dropped", None), now_ms=now_ms) is not None
