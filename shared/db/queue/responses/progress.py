"""What happens to a claimed response: parts arrive, files stay out, and it ends, fails or is given back."""

import json
from collections.abc import Sequence

import apsw

from shared.core.errors import ClaimLost
from shared.db.engine.connection import rows, scalar
from shared.db.queue import events
from shared.db.queue.events import EventData
from shared.db.queue.responses.rows import Response, ResponseVerdict


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


def record_part(
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


def record_left_out_files(
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


def sent_count(conn: apsw.Connection, response_id: int) -> int | None:
    """How many parts of the response are sent, as the row has it now; None: the row is gone."""
    found: int | None = scalar(
        conn, "SELECT json_array_length(parts) FROM responses WHERE id = :id", {"id": response_id}
    )
    return found


def unsent_since(conn: apsw.Connection, response_id: int) -> int | None:
    """See ``Response``: as the row has it now."""
    found: int | None = scalar(conn, "SELECT unsent_since FROM responses WHERE id = :id", {"id": response_id})
    return found


def record_cut(conn: apsw.Connection, response: Response, cuts: tuple[int, ...], *, lease_until: int) -> None:
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
        also: as for ``record_part``.

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
               failure = :failure, unsent_since = :unsent_since, failed_at = :now, claimed_by = NULL, lease = NULL,
               part_started = CASE WHEN :failure = 'outcome_unknown' THEN part_started END
         WHERE id = :id AND status = 'delivering' AND claimed_by = :token
        RETURNING part_started
        """,
        {
            **verdict.outcome,
            "status": verdict.status,
            "unsent_since": verdict.unsent_since,
            "now": now_ms,
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
           failure = :failure, failed_at = :now
     WHERE id = :id AND status = 'pending'
"""


def set_aside(conn: apsw.Connection, response: Response, verdict: ResponseVerdict, *, now_ms: int) -> None:
    """As ``fail``, for a response that can't be claimed.

    Raises:
        ClaimLost: it is no longer pending.
    """
    conn.execute(_SET_ASIDE, {**verdict.outcome, "status": verdict.status, "id": response.id, "now": now_ms})
    _check(conn, response)
    _event(conn, "response_dead" if verdict.dead else "response_retry", response, now_ms=now_ms, data=verdict.outcome)


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
