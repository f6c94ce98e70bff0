"""Which of a session's messages share a turn."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import apsw

from shared.core.content import private_to
from shared.core.errors import RowInvalid
from shared.core.time.backoff import has_slept
from shared.db.engine.connection import rows
from shared.db.queue.claims.rows import Claim
from shared.db.queue.message_row import COLUMNS, LONGEST_DEBOUNCE_MS, Message, message_of, readable_message_of

WhileBusy = Literal["steer", "interrupt"]

_CANDIDATE = f"id, process_after, gathers_until, status, urgency = 'urgent', {COLUMNS}"

# A message that is planned for later is left out; one that waits for a retry is not.
DUE = f"""
    SELECT {_CANDIDATE}
      FROM messages
     WHERE agent = :agent AND session_id = :session AND trigger = 1 AND (status = 'pending' OR status = 'processing')
       AND (process_after IS NULL OR process_after <= :now OR failure IS NOT NULL OR status = 'processing')
       AND NOT EXISTS (SELECT 1 FROM agent_pauses p WHERE p.agent = :agent AND p.state = 'paused')
     ORDER BY status DESC, id
     LIMIT :limit
"""

URGENT = f"""
    SELECT {_CANDIDATE}
      FROM messages
     WHERE session_id = :session AND urgency = 'urgent' AND status = 'pending' AND trigger = 1
       AND (process_after IS NULL OR process_after <= :now)
     ORDER BY id
     LIMIT :limit
"""

# What waits for the session's next turn, in its order.
WAITING = f"""
    SELECT {_CANDIDATE}
      FROM messages
     WHERE agent = :agent AND session_id = :session AND trigger = 1 AND (status = 'pending' OR status = 'processing')
       AND status = 'pending' AND (process_after IS NULL OR process_after <= :now OR failure IS NOT NULL)
     ORDER BY id
     LIMIT :limit
"""

CLAIMED = f"""
    SELECT {_CANDIDATE}
      FROM messages
     WHERE id IN (SELECT value FROM json_each(:ids)) AND trigger = 1
     ORDER BY id
"""


class _Candidate(NamedTuple):
    """A message that may join the batch: what decides that, and its row, which is parsed only if it does."""

    id: int
    process_after: int | None
    gathers_until: int | None
    status: str
    is_urgent: bool
    row: Sequence[Any]

    def is_later(self, now_ms: int) -> bool:
        return self.process_after is not None and self.process_after > now_ms

    def gathers(self, now_ms: int) -> bool:
        """Whether its sender may be writing the next line."""
        left_ms = 0 if self.gathers_until is None else self.gathers_until - now_ms
        return 0 < left_ms <= LONGEST_DEBOUNCE_MS  # more: the clock was set back

    def message(self, now_ms: int) -> Message:
        """The message. Its waits in a row begin anew where nothing was tried for hours after the last one."""
        found = message_of(self.row)
        return found._replace(waits_since=None) if has_slept(self.process_after, now_ms=now_ms) else found


def _candidates(conn: apsw.Connection, sql: str, parameters: Mapping[str, Any]) -> list[_Candidate]:
    found = rows(conn, sql, parameters)
    return [_Candidate(row[0], row[1], row[2], row[3], bool(row[4]), row[5:]) for row in found]


def due_batch(conn: apsw.Connection, agent: str, session_id: int, *, now_ms: int, limit: int) -> list[Message]:
    """The batch's triggers: oldest first, up to the first one that can't share a turn with them.

    Urgent messages come before older ones. Nothing while a turn has the session, its oldest message waits for a
    retry, or its oldest message waits for more of its sender and nothing is urgent.
    """
    key = {"agent": agent, "session": session_id, "now": now_ms, "limit": limit}
    due = _candidates(conn, DUE, key)
    if not due or due[0].status == "processing" or due[0].is_later(now_ms):
        return []
    urgent = _candidates(conn, URGENT, key)
    if due[0].gathers(now_ms) and not urgent:
        return []
    if urgent:
        first = {each.id for each in urgent}
        due = [*urgent, *(each for each in due if each.id not in first)][:limit]
    return _batch(due, now_ms)


def _audience(message: Message) -> tuple[int | None, str | None, str | None]:
    """Who sees the answer. Since migration 7 a person's private messages have a session of their own."""
    return message.chat_id, message.thread_id, private_to(message.content)


def _batch(candidates: Iterable[_Candidate], now_ms: int) -> list[Message]:
    """The messages, from the first on, that can share a turn.

    Raises:
        RowInvalid: the first can't be read.
    """
    batch: list[Message] = []
    shared = None
    for each in candidates:
        if each.is_later(now_ms):
            break  # it waits for a retry, and later messages wait behind it
        try:
            message = each.message(now_ms)
        except RowInvalid:
            if batch:
                break  # those before it go first
            raise
        goes_alone = _goes_alone(message)
        audience = (*_audience(message), message.spoken)  # what was said before was about all of its batch
        if batch and (goes_alone or audience != shared):
            break  # one answer can't serve both
        batch.append(message)
        shared = audience
        if goes_alone:
            break
    return batch


def _goes_alone(message: Message) -> bool:
    has_failed = message.retry_count and message.spoken is None
    has_own_turn = message.while_busy == "followup" or message.is_gated or message.content.get("own_answer")
    return bool(has_failed or message.runs_alone or has_own_turn)


def may_join(conn: apsw.Connection, claim: Claim, while_busy: WhileBusy, *, now_ms: int, limit: int) -> list[Message]:
    """What waits in the session, oldest first, and may join the turn that runs there, by this word of its wiring.

    Nothing overtakes an older message, nothing joins a turn that was tried before, and all have one audience.

    Args:
        limit: of all messages that ask for the turn.
    """
    first = claim.asked[0]
    if any(map(_goes_alone, claim.asked)):
        return []
    found: list[Message] = []
    key = {"agent": claim.agent, "session": claim.session_id, "now": now_ms, "limit": max(0, limit - len(claim.asked))}
    for each in _candidates(conn, WAITING, key):
        message = readable_message_of(each.row)
        is_new = not (message.retry_count or message.waits_since or message.spoken or _goes_alone(message))
        waits = while_busy == "interrupt" and each.gathers(now_ms) and not found
        if message.while_busy != while_busy or not is_new or waits or _audience(message) != _audience(first):
            break
        found.append(message)
    return found


def is_due(conn: apsw.Connection, agent: str, session_id: int, *, now_ms: int) -> bool:
    """Whether a turn could claim something in the session now."""
    return bool(due_batch(conn, agent, session_id, now_ms=now_ms, limit=1))


def has_urgent_message(conn: apsw.Connection, claim: Claim) -> bool:
    """Whether the turn has an urgent message."""
    return any(each.is_urgent for each in _candidates(conn, CLAIMED, {"ids": claim.ids}))


def would_gain(conn: apsw.Connection, claim: Claim, *, now_ms: int, limit: int) -> bool:
    """Whether the turn, released and claimed again, would have an urgent message that it does not have now.

    Urgent messages go first, oldest first, so each new claim adds to them until the batch is full.
    """
    pending = _candidates(conn, URGENT, {"session": claim.session_id, "now": now_ms, "limit": limit})
    if not pending:
        return False
    claimed = _candidates(conn, CLAIMED, {"ids": claim.ids})
    urgent = sorted([*pending, *(each for each in claimed if each.is_urgent)], key=lambda each: each.id)
    others = [each for each in claimed if not each.is_urgent]
    batch = {message.id for message in _batch([*urgent, *others][:limit], now_ms)}
    return any(each.id in batch for each in pending)
