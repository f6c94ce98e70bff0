"""Responses: what goes out to people, and its delivery.

::

    paused <──> pending ──claim──> delivering ──ack──> acked
    (series)       ^                   │
                   └─retry, rescue, ───┴──> dead ──delete──> deleted
                     release

Responses to one chat go out in order: only the head of a chat is ever claimed. A head that waits for a retry holds back
its own chat and no other.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import apsw

from shared.core import content
from shared.core.content import ResponseContent
from shared.core.errors import ClaimLost
from shared.db.engine.connection import insert_into, rows, scalar
from shared.db.queue import events, schedule_runs
from shared.db.queue.events import EventData, NewEvent

# A loose scan over the chats of one channel that have open responses.
HEADS = """
    WITH RECURSIVE open (chat_id) AS (
        SELECT min(chat_id)
          FROM responses
         WHERE (status = 'pending' OR status = 'delivering') AND channel = :channel
         UNION ALL
        SELECT (SELECT min(r.chat_id)
                  FROM responses r
                 WHERE (r.status = 'pending' OR r.status = 'delivering') AND r.channel = :channel
                   AND r.chat_id > open.chat_id)
          FROM open
         WHERE open.chat_id IS NOT NULL
    )
    SELECT head.id, open.chat_id
      FROM open
      JOIN chats c ON c.id = open.chat_id
      JOIN responses head
        ON head.id = (SELECT r.id
                        FROM responses r
                       WHERE r.channel = :channel AND r.chat_id = open.chat_id AND r.status = 'pending'
                         AND (r.deliver_after IS NULL OR r.deliver_after <= :now OR r.failure IS NOT NULL)
                       ORDER BY r.id
                       LIMIT 1)
     WHERE ifnull(c.not_before, 0) <= :now
       AND (head.deliver_after IS NULL OR head.deliver_after <= :now)
       AND NOT EXISTS (SELECT 1
                         FROM responses r
                        WHERE r.channel = :channel AND r.chat_id = open.chat_id AND r.status = 'delivering')
"""


FailureCode = Literal["error", "rate_limited", "outcome_unknown", "unreadable"]


class NewResponse(NamedTuple):
    """A response to store, by the columns of its table. ``content``, ``files`` and ``metadata`` are JSON texts."""

    message_id: str
    channel: str
    sender: str
    message: str
    in_reply_to: int | None = None
    chat_id: int | None = None
    platform_id: str | None = None
    thread_id: str | None = None
    session_id: int | None = None
    sender_id: str | None = None
    original_message: str = ""
    agent: str | None = None
    content: str = "{}"
    kind: str = "chat"
    files: str = "[]"
    metadata: str = "{}"
    deliver_after: int | None = None
    recurrence: str | None = None
    timezone: str | None = None
    misfire: str = "coalesce"
    scheduled_at: int | None = None
    series_id: str | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """A claimed row, as delivery needs it.

    Attributes:
        opens_for: the person of a direct chat that the platform has not opened yet.
        is_inactive: the bot was blocked in that chat or removed from it.
        unsent_since: the first of its last failures in which nothing left this machine, in ms UTC; None: there is none.
        cuts: see ``part_cut``.
        failure: of the last attempt; None: none failed.
        files: as stored.
        unsent_files: see ``files_left_out``.
    """

    id: int
    message_id: str
    in_reply_to: int | None
    channel: str
    chat_id: int
    platform_id: str
    thread_id: str | None
    agent: str | None
    message: str
    content: ResponseContent
    retry_count: int
    parts: tuple[str | None, ...]
    created_at: int
    unsent_since: int | None
    deliver_after: int | None
    cuts: tuple[int, ...]
    session_id: int | None
    files: tuple[Any, ...]
    unsent_files: tuple[Any, ...]
    failure: FailureCode | None
    token: str
    opens_for: str | None = None
    is_inactive: bool = False


_COLUMNS = (
    *("id", "message_id", "in_reply_to", "channel", "chat_id", "platform_id", "thread_id", "agent", "message"),
    *("content", "retry_count", "parts", "created_at", "unsent_since", "deliver_after"),
    *("cuts", "session_id", "files", "unsent_files", "failure"),
)


_CLAIMED = ", ".join(_COLUMNS)
_SENT = ", ".join(f"r.{column}" for column in _COLUMNS)


def _response(row: Sequence[Any], token: str, opens_for: str | None, *, is_inactive: bool = False) -> Response:
    """From the columns of ``_COLUMNS``.

    Raises:
        RowInvalid: its content, or what says which parts were sent, can't be read.
    """
    values = dict(zip(_COLUMNS, row, strict=True))
    values["content"] = content.decode(values["content"])
    values["parts"] = tuple(content.decode_list(values["parts"]))
    values["cuts"] = _list(values["cuts"])
    values["files"] = _list(values["files"])
    values["unsent_files"] = _list(values["unsent_files"])
    return Response(**values, token=token, opens_for=opens_for, is_inactive=is_inactive)


def _list(text: str | None) -> tuple[Any, ...]:
    return tuple(content.decode_list(text)) if text and text != "[]" else ()


def _readable(row: Sequence[Any], token: str, opens_for: str | None) -> Response:
    """As ``_response``, for those who end the attempt: what can't be read is empty."""
    values = dict(zip(_COLUMNS, row, strict=True))
    values["content"] = content.readable(values["content"])
    values["parts"] = tuple(content.readable_list(values["parts"]))
    for name in ("cuts", "files", "unsent_files"):
        values[name] = tuple(content.readable_list(values[name] or "[]"))
    return Response(**values, token=token, opens_for=opens_for)


_INSERT = insert_into("responses", ("created_at", *NewResponse._fields))

# Nearly every response has the defaults of what follows ``content``; binding those takes time and gains nothing.
_PLAIN = NewResponse._fields.index("content") + 1
_INSERT_PLAIN = insert_into("responses", ("created_at", *NewResponse._fields[:_PLAIN]))
_DEFAULTS = NewResponse("", "", "", "")[_PLAIN:]


def enqueue(conn: apsw.Connection, new: NewResponse, *, now_ms: int) -> int:
    """Store the response; its id."""
    (row_id,) = enqueue_many(conn, [new], now_ms=now_ms)
    return row_id


def enqueue_many(conn: apsw.Connection, news: Sequence[NewResponse], *, now_ms: int) -> Sequence[int]:
    """Store the responses, in order; returns their ids, which are consecutive because writers are serialised.

    Each is a millisecond younger than the one before: TinyAGI's office has only the instants to put them in order.
    """
    if not news:
        return ()
    if all(new[_PLAIN:] == _DEFAULTS for new in news):
        conn.executemany(_INSERT_PLAIN, [(at_ms, *new[:_PLAIN]) for at_ms, new in enumerate(news, now_ms)])
    else:
        conn.executemany(_INSERT, [(at_ms, *new) for at_ms, new in enumerate(news, now_ms)])
    newest = conn.last_insert_rowid()
    ids_ = range(newest - len(news) + 1, newest + 1)
    events.append_many(
        conn,
        [
            NewEvent("response_ready", now_ms + place, new.message_id, id_, new.agent, new.channel, new.session_id)
            for place, (id_, new) in enumerate(zip(ids_, news, strict=True))
        ],
    )
    return ids_


def heads(conn: apsw.Connection, channel: str, *, now_ms: int, held: Collection[int] = ()) -> list[int]:
    """The oldest response of each chat of *channel* that may go out now, oldest first.

    Args:
        held: the chats to which this process still sends, even if its leases have ended.
    """
    found = rows(conn, HEADS, {"channel": channel, "now": now_ms})
    return sorted(head for head, chat in found if chat not in held)


def trial(conn: apsw.Connection, channel: str, *, now_ms: int, held: Collection[int] = ()) -> int | None:
    """The head with which to try whether the platform works again: one that has not failed, else the longest ago."""
    found: int | None = scalar(
        conn,
        """
        SELECT id
          FROM responses
         WHERE id IN (SELECT value FROM json_each(:heads))
         ORDER BY deliver_after IS NOT NULL, deliver_after, id
         LIMIT 1
        """,
        {"heads": json.dumps(heads(conn, channel, now_ms=now_ms, held=held))},
    )
    return found


def waiting_since(
    conn: apsw.Connection, channel: str, *, outage_began_at: int, past_ms: int, now_ms: int, limit: int
) -> list[tuple[int, FailureCode | None]]:
    """The due responses that have waited for the platform since *past_ms* or longer, each with its last failure."""
    found = rows(
        conn,
        """
        SELECT id, failure
          FROM responses
         WHERE (status = 'pending' OR status = 'delivering') AND channel = :channel AND status = 'pending'
           AND (deliver_after IS NULL OR deliver_after <= :now)
           AND ifnull(unsent_since, max(created_at, ifnull(deliver_after, 0), :began)) <= :past
         ORDER BY id
         LIMIT :limit
        """,
        {"channel": channel, "began": outage_began_at, "past": past_ms, "now": now_ms, "limit": limit},
    )
    return [(id_, failure) for id_, failure in found]


_CLAIM = f"""
    UPDATE responses
       SET status = 'delivering', claimed_by = :token, lease = :lease, part_started = json_array_length(parts)
     WHERE id = :id AND status = 'pending' AND (deliver_after IS NULL OR deliver_after <= :now)
    RETURNING series_id, scheduled_at, (SELECT opens_for FROM chats WHERE id = chat_id),
              (SELECT status = 'inactive' FROM chats WHERE id = chat_id), {_CLAIMED}
"""


def claim(conn: apsw.Connection, response_id: int, *, token: str, now_ms: int, lease_ms: int) -> Response | None:
    """Claim one head, and record that the sending of its next part begins; None if it is no longer due.

    The record stands before the platform is called: if no answer comes, the row says that the part may have been sent.

    Raises:
        RowInvalid: its content can't be read; the caller's transaction or savepoint must roll back.
    """
    found = rows(conn, _CLAIM, {"token": token, "lease": now_ms + lease_ms, "now": now_ms, "id": response_id})
    if not found:
        return None
    ((series_id, scheduled_at, opens_for, is_inactive, *row),) = found
    claimed = _response(row, token, opens_for, is_inactive=bool(is_inactive))
    if series_id is not None and scheduled_at is not None:
        schedule_runs.begin(conn, series_id, claimed.message_id, due_ms=scheduled_at, now_ms=now_ms)
    return claimed


def was_answered(conn: apsw.Connection, response: Response) -> bool:
    """Whether a response to the same platform event has gone out already, of this agent or another."""
    found = scalar(
        conn,
        """
        SELECT EXISTS (SELECT 1
                         FROM responses r
                        WHERE r.in_reply_to = :message AND r.parts <> '[]' AND r.content ->> '$.reaction' IS NULL)
            OR EXISTS (SELECT 1
                         FROM messages mine
                         JOIN messages m ON m.channel = mine.channel AND m.event_key = mine.event_key
                         JOIN responses r ON r.in_reply_to = m.id
                        WHERE mine.id = :message AND r.parts <> '[]' AND r.content ->> '$.reaction' IS NULL)
        """,
        {"message": response.in_reply_to},
    )
    return bool(found)


def sent_as(conn: apsw.Connection, response_id: int, *, chat_id: int) -> str | None:
    """The platform's id of the last part of a response to that chat, or None if it is not known (any more)."""
    found: str | None = scalar(
        conn,
        "SELECT parts ->> '$[#-1]' FROM responses WHERE id = :id AND chat_id = :chat",
        {"id": response_id, "chat": chat_id},
    )
    return found


def release(conn: apsw.Connection, response: Response) -> None:
    """The response is pending again: no part of it was begun.

    Raises:
        ClaimLost: another process holds the response.
    """
    conn.execute(
        """
        UPDATE responses
           SET status = 'pending', claimed_by = NULL, lease = NULL, part_started = NULL
         WHERE id = :id AND status = 'delivering' AND claimed_by = :token
        """,
        {"id": response.id, "token": response.token},
    )
    _check(conn, response)


def part_sent(
    conn: apsw.Connection,
    response: Response,
    parts: tuple[str | None, ...],
    also: Sequence[str] = (),
    *,
    lease_until: int,
) -> None:
    """One part has reached the platform, under the last id of *parts*; the sending of the next part begins.

    Args:
        also: the platform's ids of further messages that parts became since the claim.

    Raises:
        ClaimLost: another process holds the response.
    """
    conn.execute(
        """
        UPDATE responses
           SET parts = :parts, part_started = json_array_length(:parts), unsent_since = NULL, lease = :lease
         WHERE id = :id AND status = 'delivering' AND claimed_by = :token
        """,
        {"parts": json.dumps(parts), "lease": lease_until, "id": response.id, "token": response.token},
    )
    _check(conn, response)
    _add_ids(conn, response, also)


def _add_ids(conn: apsw.Connection, response: Response, also: Sequence[str]) -> None:
    """Add the ids of an album's further messages, those that are not there yet."""
    if not also:
        return
    conn.execute(
        """
        UPDATE responses
           SET also = (SELECT json_group_array(id)
                         FROM (SELECT value AS id FROM json_each(ifnull(responses.also, '[]'))
                               UNION
                               SELECT value FROM json_each(:also)))
         WHERE id = :id
        """,
        {"also": json.dumps(also), "id": response.id},
    )


def files_left_out(
    conn: apsw.Connection, response: Response, unsent: Sequence[Sequence[int | str]], *, lease_until: int
) -> None:
    """These files of the response are not sent.

    Args:
        unsent: all of them so far: the place in ``files``, and the reason.

    Raises:
        ClaimLost: another process holds the response.
    """
    conn.execute(
        """
        UPDATE responses
           SET unsent_files = :unsent, lease = :lease
         WHERE id = :id AND status = 'delivering' AND claimed_by = :token
        """,
        {"unsent": json.dumps(unsent), "lease": lease_until, "id": response.id, "token": response.token},
    )
    _check(conn, response)


def sent_count(conn: apsw.Connection, response_id: int) -> int:
    """How many parts have reached the platform, as the row has it now."""
    found: int = scalar(conn, "SELECT json_array_length(parts) FROM responses WHERE id = :id", {"id": response_id})
    return found


def unsent_since(conn: apsw.Connection, response_id: int) -> int | None:
    """See ``Response``: as the row has it now."""
    found: int | None = scalar(conn, "SELECT unsent_since FROM responses WHERE id = :id", {"id": response_id})
    return found


def part_cut(conn: apsw.Connection, response: Response, cuts: tuple[int, ...], *, lease_until: int) -> None:
    """The platform finds the next part too long: it goes out in smaller pieces.

    Args:
        cuts: the parts that were cut so far, in that order, each by its number at that time.

    Raises:
        ClaimLost: another process holds the response.
    """
    conn.execute(
        """
        UPDATE responses
           SET cuts = :cuts, lease = :lease
         WHERE id = :id AND status = 'delivering' AND claimed_by = :token
        """,
        {"cuts": json.dumps(cuts), "lease": lease_until, "id": response.id, "token": response.token},
    )
    _check(conn, response)


def ack(
    conn: apsw.Connection,
    response: Response,
    parts: tuple[str | None, ...],
    also: Sequence[str] = (),
    *,
    now_ms: int,
) -> None:
    """Every part has reached the platform.

    Args:
        also: as for ``part_sent``.

    Raises:
        ClaimLost: another process holds the response.
    """
    conn.execute(
        """
        UPDATE responses
           SET status = 'acked', claimed_by = NULL, lease = NULL, part_started = NULL, last_error = NULL,
               failure = NULL, unsent_since = NULL, parts = :parts, platform_message_id = :first, acked_at = :now
         WHERE id = :id AND status = 'delivering' AND claimed_by = :token
        """,
        {
            "parts": json.dumps(parts),
            "first": next((each for each in parts if each is not None), None),
            "now": now_ms,
            "id": response.id,
            "token": response.token,
        },
    )
    _check(conn, response)
    _add_ids(conn, response, also)
    _event(conn, "response_acked", response, now_ms=now_ms)


@dataclass(frozen=True, slots=True)
class ResponseVerdict:
    """What a failed delivery does to a response: a retry from *deliver_after* on, or the end. The caller decides.

    Attributes:
        reason: for people; no statement reads it.
        unsent_since: see ``Response``.
    """

    dead: bool
    retry_count: int
    deliver_after: int | None
    reason: str
    failure: FailureCode = "error"
    unsent_since: int | None = None

    @property
    def status(self) -> str:
        """The state that the response goes to."""
        return "dead" if self.dead else "pending"

    @property
    def outcome(self) -> EventData:
        """What its event says."""
        return {"reason": self.reason, "retry_count": self.retry_count, "deliver_after": self.deliver_after}


def fail(conn: apsw.Connection, response: Response, verdict: ResponseVerdict, *, now_ms: int) -> None:
    """The delivery failed: retry or end the response, as the verdict says. Parts that were sent stay sent.

    Raises:
        ClaimLost: another process holds the response.
    """
    changed = rows(
        conn,
        """
        UPDATE responses
           SET status = :status, retry_count = :retry_count, deliver_after = :deliver_after, last_error = :reason,
               failure = :failure, unsent_since = :unsent_since, claimed_by = NULL, lease = NULL,
               part_started = CASE WHEN :failure = 'outcome_unknown' THEN part_started END
         WHERE id = :id AND status = 'delivering' AND claimed_by = :token
        RETURNING part_started
        """,
        {
            **verdict.outcome,
            "status": verdict.status,
            "failure": verdict.failure,
            "unsent_since": verdict.unsent_since,
            "id": response.id,
            "token": response.token,
        },
    )
    _check(conn, response)
    if verdict.failure == "outcome_unknown":
        ((part,),) = changed
        _event(conn, "response_outcome_unknown", response, now_ms=now_ms, data={"part": part})
    _event(conn, "response_dead" if verdict.dead else "response_retry", response, now_ms=now_ms, data=verdict.outcome)


_SET_ASIDE = """
    UPDATE responses
       SET status = :status, retry_count = :retry_count, deliver_after = :deliver_after, last_error = :reason,
           failure = :failure
     WHERE id = :id AND status = 'pending'
"""


def set_aside(conn: apsw.Connection, response: Response, verdict: ResponseVerdict, *, now_ms: int) -> None:
    """As ``fail``, for a response that can't be claimed.

    Raises:
        ClaimLost: it is no longer pending.
    """
    state = {"status": verdict.status, "failure": verdict.failure, "id": response.id}
    conn.execute(_SET_ASIDE, {**verdict.outcome, **state})
    _check(conn, response)
    _event(conn, "response_dead" if verdict.dead else "response_retry", response, now_ms=now_ms, data=verdict.outcome)


def readable(conn: apsw.Connection, response_id: int) -> Response | None:
    """The pending response with this id, with an empty content where that can't be read; None: it is not pending."""
    found = rows(
        conn,
        f"SELECT {_CLAIMED} FROM responses WHERE id = :id AND status = 'pending'",
        {"id": response_id},
    )
    return _readable(found[0], "", None) if found else None


def _check(conn: apsw.Connection, response: Response) -> None:
    if conn.changes() != 1:
        raise ClaimLost(f"response {response.id} is no longer held by {response.token}: another process rescued it")


def _event(
    conn: apsw.Connection, type_: str, response: Response, *, now_ms: int, data: EventData | None = None
) -> None:
    events.append(
        conn,
        type_,
        now_ms=now_ms,
        message_id=response.message_id,
        response_id=response.id,
        agent=response.agent,
        channel=response.channel,
        data=data,
    )


_DELIVERING = f"""
    WITH RECURSIVE open (chat_id) AS (
        SELECT min(chat_id)
          FROM responses
         WHERE (status = 'pending' OR status = 'delivering') AND channel = :channel
         UNION ALL
        SELECT (SELECT min(r.chat_id)
                  FROM responses r
                 WHERE (r.status = 'pending' OR r.status = 'delivering') AND r.channel = :channel
                   AND r.chat_id > open.chat_id)
          FROM open
         WHERE open.chat_id IS NOT NULL
    )
    SELECT r.lease, r.claimed_by, (SELECT c.opens_for FROM chats c WHERE c.id = r.chat_id),
           {_SENT}
      FROM open
     CROSS JOIN responses r
     WHERE r.channel = :channel AND r.chat_id = open.chat_id AND r.status = 'delivering'
     ORDER BY r.id
"""


def delivering(conn: apsw.Connection, channel: str) -> list[tuple[Response, int]]:
    """The responses of *channel* that are being sent, each with the end of its lease in ms."""
    found = rows(conn, _DELIVERING, {"channel": channel})
    return [(_readable(row, token, opens_for), lease) for lease, token, opens_for, *row in found]


def next_due(conn: apsw.Connection, channel: str, *, now_ms: int) -> int | None:
    """The instant in ms at which the next planned response or retry of *channel* becomes due, or None."""
    due: int | None = scalar(
        conn,
        """
        SELECT min(deliver_after)
          FROM responses
         WHERE channel = :channel AND status = 'pending' AND deliver_after > :now
        """,
        {"channel": channel, "now": now_ms},
    )
    return due


_OPEN_COUNT = """
    SELECT (SELECT count(*) FROM responses WHERE status = 'pending' OR status = 'delivering')
         - (SELECT count(*)
              FROM responses INDEXED BY responses_delayed
             WHERE deliver_after > :now AND status = 'pending' AND failure IS NULL)
"""


def open_count(conn: apsw.Connection, *, now_ms: int) -> int:
    """How many responses are pending or being delivered; not those that are planned for later."""
    count: int = scalar(conn, _OPEN_COUNT, {"now": now_ms})
    return count


def prune(conn: apsw.Connection, *, after_id: int, older_than_ms: int, limit: int) -> tuple[int, int]:
    """As ``messages.prune``: walk by id, delete responses acked before *older_than_ms*, keep the newest row.

    The card of a pending approval stays: the decision edits it.
    """
    found = rows(
        conn,
        """
        SELECT id, created_at < :cutoff,
               status = 'acked' AND recurrence IS NULL AND acked_at < :cutoff
               AND id NOT IN (SELECT card FROM approvals WHERE status = 'pending' AND card IS NOT NULL)
          FROM responses
         WHERE id > :after AND id < (SELECT max(id) FROM responses)
         ORDER BY id
         LIMIT :limit
        """,
        {"after": after_id, "cutoff": older_than_ms, "limit": limit},
    )
    doomed = [id_ for id_, _, is_over in found if is_over]
    conn.execute("DELETE FROM responses WHERE id IN (SELECT value FROM json_each(:ids))", {"ids": json.dumps(doomed)})
    if len(found) < limit or not any(is_old for _, is_old, _ in found):
        return len(doomed), 0
    last, *_ = found[-1]
    return len(doomed), last
