"""Parts of responses that were sent without an answer, and what the platform shows of them.

::

    open (evidence is NULL) ──settle──> arrived | absent | repeatable | none ──note: sent again, no answer──> open
"""

import json
from typing import Literal

import apsw

from shared.db.engine.connection import rows, scalar
from shared.db.queue.responses import Response

EvidenceWord = Literal["arrived", "absent", "repeatable", "none"]


def note(conn: apsw.Connection, response_id: int, part: int, *, tried_from: int, now_ms: int) -> int:
    """The outcome of this part is unknown; its send began at *tried_from*, in ms UTC, or later. How many there were.

    A part that is open already keeps its first instant: any of its sends may have arrived.
    """
    ((sends,),) = rows(
        conn,
        """
        INSERT INTO unknown_sends (response_id, part, tried_from, last_at)
        VALUES (:response, :part, :tried_from, :now)
        ON CONFLICT (response_id, part)
        DO UPDATE SET tried_from = min(tried_from, excluded.tried_from), evidence = NULL, message_id = NULL,
                      settled_at = NULL, sends = sends + 1, last_at = excluded.last_at
        RETURNING sends
        """,
        {"response": response_id, "part": part, "tried_from": tried_from, "now": now_ms},
    )
    return int(sends)


_TOGETHER_MS = 10 * 60_000  # within which sends to several chats fail for one reason
_NEWEST_RESPONSES = 10_000  # among them are those that went out within that time


def is_of_several_chats(conn: apsw.Connection, response: Response, *, now_ms: int) -> bool:
    """Whether a send to another chat of the channel got no answer lately, and nothing went out since."""
    found = scalar(
        conn,
        """
        SELECT EXISTS (SELECT 1
                         FROM unknown_sends u
                         JOIN responses r ON r.id = u.response_id
                        WHERE u.evidence IS NULL AND u.last_at > :since AND r.channel = :channel
                          AND r.chat_id <> :chat AND r.status <> 'acked'
                          AND NOT EXISTS (SELECT 1
                                            FROM responses sent
                                           WHERE sent.id > ifnull((SELECT id
                                                                     FROM responses
                                                                    ORDER BY id DESC
                                                                    LIMIT 1 OFFSET :newest), 0)
                                             AND sent.channel = :channel AND sent.acked_at >= u.last_at))
        """,
        {
            "since": now_ms - _TOGETHER_MS,
            "channel": response.channel,
            "chat": response.chat_id,
            "newest": _NEWEST_RESPONSES,
        },
    )
    return bool(found)


def tried_from(conn: apsw.Connection, response_id: int, part: int) -> int | None:
    """When the first send of this part may have begun, in ms UTC, while its outcome is unknown; else None."""
    found: int | None = scalar(
        conn,
        "SELECT tried_from FROM unknown_sends WHERE response_id = :response AND part = :part AND evidence IS NULL",
        {"response": response_id, "part": part},
    )
    return found


def settle(
    conn: apsw.Connection, response_id: int, part: int, evidence: EvidenceWord, message_id: str | None, *, now_ms: int
) -> bool:
    """Keep what the platform shows. False: the part is not open."""
    conn.execute(
        """
        UPDATE unknown_sends
           SET evidence = :evidence, message_id = :message_id, settled_at = :now
         WHERE response_id = :response AND part = :part AND evidence IS NULL
        """,
        {
            "evidence": evidence,
            "message_id": message_id,
            "now": now_ms,
            "response": response_id,
            "part": part,
        },
    )
    return conn.changes() == 1


def settle_found(
    conn: apsw.Connection,
    response: Response,
    part: int,
    verdict: EvidenceWord,
    message_ids: tuple[str, ...],
    *,
    now_ms: int,
) -> tuple[EvidenceWord, str | None]:
    """Keep what the platform shows: the verdict, and the platform's id of the part where it arrived.

    A message that is known as a part of another response is no evidence of this one: people say the same thing twice.

    Args:
        message_ids: of ``arrived``: the messages that can be this part, oldest first.
    """
    others = are_of_other_responses(conn, response.chat_id, response.id, message_ids)
    ours = [id_ for id_ in message_ids if id_ not in others and id_ not in response.parts]
    if verdict == "arrived" and not ours:
        verdict = "absent"
    message_id = ours[0] if verdict == "arrived" else None
    settle(conn, response.id, part, verdict, message_id, now_ms=now_ms)
    return verdict, message_id


def are_of_other_responses(conn: apsw.Connection, chat_id: int, response_id: int, ids: tuple[str, ...]) -> set[str]:
    """Those of these ids of the platform's messages that are parts of other responses to the chat."""
    found = rows(
        conn,
        """
        SELECT part.value
          FROM responses r, json_each(r.parts) part
         WHERE r.chat_id = :chat AND r.id <> :response AND r.parts <> '[]'
           AND part.value IN (SELECT value FROM json_each(:ids))
        """,
        {"chat": chat_id, "response": response_id, "ids": json.dumps(ids)},
    )
    return {str(each) for (each,) in found}


def prune(conn: apsw.Connection, *, limit: int) -> int:
    """Delete the rows of responses that are gone: how many."""
    conn.execute(
        """
        DELETE FROM unknown_sends
         WHERE (response_id, part) IN (SELECT u.response_id, u.part
                                         FROM unknown_sends u
                                        WHERE NOT EXISTS (SELECT 1 FROM responses r WHERE r.id = u.response_id)
                                        LIMIT :limit)
        """,
        {"limit": limit},
    )
    return conn.changes()
