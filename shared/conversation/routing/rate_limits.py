"""How much a minute one sender, and one group, may send: messages, and of a sender also bytes.

A refusal is said once a minute.
"""

from typing import Literal, NamedTuple

import apsw

from shared.channels.base import Event
from shared.core.policy import AccessPolicy
from shared.db.access import rates
from shared.db.access.rates import RateResult, Size

_ANY = 60_000_000  # messages a minute, where their number has no limit

Limit = Literal["sender", "chat", "size", "too_large"]


class Exceeded(NamedTuple):
    """A limit was exceeded.

    Attributes:
        limit: the number of the ``sender``'s messages or of the ``chat``'s, the ``size`` of the sender's messages of
            this minute, or the size of this one alone, which is ``too_large`` for any minute.
        is_told: the sender is to be told; not again within a minute.
        again_at: when there is room again, ms UTC, where the sender is to be told of it.
    """

    limit: Limit
    is_told: bool
    again_at: int | None = None


def count(
    conn: apsw.Connection, channel: str, event: Event, policy: AccessPolicy, *, counts_chat: bool = True, now_ms: int
) -> Exceeded | None:
    """Count the event against its sender and, in a group, its chat; None while both have room. A limit of 0 is none.

    An event that the sender has no room for is not counted against the chat: one sender can't silence a group.

    Args:
        counts_chat: False for a sender who may talk to no agent there: many of them can't silence the group either.
    """
    exceeded = _count_sender(conn, channel, event, policy, now_ms=now_ms)
    if exceeded is not None or not (event.is_group and counts_chat and event.platform_id and policy.chat_limit):
        return exceeded
    limit = policy.chat_limit
    key = rates.key("chat", channel, event.platform_id)
    return _exceeded("chat", rates.take(conn, key, per_minute=limit, burst=limit, now_ms=now_ms))


def _count_sender(
    conn: apsw.Connection, channel: str, event: Event, policy: AccessPolicy, *, now_ms: int
) -> Exceeded | None:
    if event.sender_id is None or not (policy.sender_limit or policy.sender_bytes):
        return None
    limit = policy.sender_limit or _ANY
    size = Size(size_of(event), policy.sender_bytes) if policy.sender_bytes else None
    key = rates.key("sender", channel, event.sender_id)
    taken = rates.take(conn, key, per_minute=limit, burst=limit, size=size, now_ms=now_ms)
    if not taken.lacks_size or size is None:
        return _exceeded("sender", taken)
    return _exceeded("size" if size.fits else "too_large", taken)


def _exceeded(limit: Limit, taken: RateResult) -> Exceeded | None:
    return None if taken.allowed else Exceeded(limit, taken.is_first_refusal, taken.again_at)


def size_of(event: Event) -> int:
    """The bytes of the event's text and attachments, as the platform counts them. Pure.

    A file whose size the platform does not tell, or that can't be downloaded, brings nothing.
    """
    files = (each.get("size") for each in event.attachments if each.get("downloadable") is not False)
    sizes = (size for size in files if isinstance(size, int) and size > 0)
    return len(event.text.encode("utf-8", "replace")) + sum(sizes)


def sentence(exceeded: Exceeded, *, now_ms: int) -> str:
    """The answer to the sender."""
    if exceeded.limit == "too_large":
        return "That is larger than what one person may send in a minute, and it was not read. Please send less of it."
    seconds = max(1, -((now_ms - (exceeded.again_at or now_ms)) // 1000))
    wait = "a second" if seconds == 1 else f"{seconds} seconds"
    if exceeded.limit == "size":
        return (
            f"That was more text and files than you have room for in a minute, and it was not read. Please send it "
            f"again in {wait}."
        )
    who = "you have" if exceeded.limit == "sender" else "this chat has"
    return f"That was more than {who} room for in a minute, and it was not read. Please write again in {wait}."
