"""How many messages a minute one sender, and one group, may send. A refusal is said once a minute."""

from typing import NamedTuple

import apsw

from shared.channels.base import Event
from shared.core.policy import AccessPolicy
from shared.db.access import rates


class Exceeded(NamedTuple):
    """A limit was exceeded.

    Attributes:
        whose: ``sender`` or ``chat``.
        again_at: when there is room again, ms UTC; None where that was said within this minute.
    """

    whose: str
    again_at: int | None


def count(
    conn: apsw.Connection, channel: str, event: Event, policy: AccessPolicy, *, counts_chat: bool = True, now_ms: int
) -> Exceeded | None:
    """Count the event against its sender and, in a group, its chat; None while both have room. A limit of 0 is none.

    An event that the sender has no room for is not counted against the chat: one sender can't silence a group.

    Args:
        counts_chat: False for a sender who may talk to no agent there: many of them can't silence the group either.
    """
    group = event.platform_id if event.is_group and counts_chat else None
    limits = (("sender", event.sender_id, policy.sender_limit), ("chat", group, policy.chat_limit))
    for whose, id_, limit in limits:
        if id_ is not None and limit:
            key = rates.key(whose, channel, id_)
            taken = rates.take(conn, key, per_minute=limit, burst=limit, now_ms=now_ms)
            if not taken.allowed:
                return Exceeded(whose, taken.again_at if taken.is_first_refusal else None)
    return None


def sentence(exceeded: Exceeded, *, now_ms: int) -> str:
    """The answer to the sender."""
    seconds = max(1, -((now_ms - (exceeded.again_at or now_ms)) // 1000))
    who = "you have" if exceeded.whose == "sender" else "this chat has"
    wait = "a second" if seconds == 1 else f"{seconds} seconds"
    return f"That was more than {who} room for in a minute, and it was not read. Please write again in {wait}."
