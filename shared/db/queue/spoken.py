"""What turns said, or did in another way, while they ran: one row for each call. The rows outlive the turn.

A *story* is everything that was said about the same messages, by the first turn and by those that went on with it.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import apsw

from shared.core.errors import ClaimLost
from shared.db.engine.connection import rows, scalar
from shared.db.queue.claims import Claim
from shared.db.queue.message_row import Message

# The fence and the mark are one statement. What the turn was told while it ran is marked too, from then on.
MARK = """
    UPDATE messages
       SET spoken = ifnull(spoken, :story)
     WHERE agent = :agent AND session_id = :session AND trigger = 1 AND (status = 'pending' OR status = 'processing')
       AND status = 'processing' AND claimed_by = :token
    RETURNING id
"""

_INSERT = """
    INSERT INTO spoken (turn, call, story, response, created_at) VALUES (:turn, :call, :story, :response, :now)
"""


def mark(conn: apsw.Connection, claim: Claim) -> str:
    """The turn has spoken; the name of the story.

    Raises:
        ClaimLost: the turn no longer holds its messages; the caller's transaction must roll back.
    """
    story = claim.asked[0].spoken or claim.token  # a turn that goes on with a story keeps its name
    held = {"agent": claim.agent, "session": claim.session_id, "token": claim.token}
    marked = {row_id for (row_id,) in rows(conn, MARK, {**held, "story": story})}
    if not marked.issuperset(message.id for message in claim.asked):
        raise ClaimLost(f"turn {claim.token} no longer holds its messages, so it can't say or do anything more")
    return story


_ABOUT = """
    SELECT id
      FROM messages
     WHERE id IN (SELECT value FROM json_each(:ids)) AND trigger = 1 AND spoken IS NOT NULL
"""


def as_spoken(conn: apsw.Connection, claim: Claim) -> Claim:
    """The claim of a turn that has spoken, by what it said: nothing was said about what it was told after that."""
    heard = (*claim.batch, *claim.told)
    found = rows(conn, _ABOUT, {"ids": json.dumps([message.id for message in heard if message.trigger])})
    about = {row_id for (row_id,) in found}
    if not about:
        return claim
    rest = tuple(message for message in heard if message.trigger and message.id not in about)
    context = tuple(message for message in claim.told if not message.trigger)
    batch = sorted(message for message in heard if message not in (*rest, *context))
    return replace(claim, batch=tuple(batch), told=(*context, *rest))


def goes_on_with(conn: apsw.Connection, messages: Sequence[Message], story: str) -> None:
    """These messages wait for the turn that goes on with the story, and are a part of its batch."""
    conn.execute(
        """
        UPDATE messages
           SET spoken = :story
         WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'pending'
        """,
        {"ids": json.dumps([message.id for message in messages]), "story": story},
    )


class SpokenCall(NamedTuple):
    """A call of a turn that was stored before; *response*: the row of what it said, None for another act."""

    response: int | None


def find(conn: apsw.Connection, turn: str, call: str) -> SpokenCall | None:
    """What this call of the turn stored, or None."""
    found = rows(conn, "SELECT response FROM spoken WHERE turn = :turn AND call = :call", {"turn": turn, "call": call})
    return SpokenCall(*found[0]) if found else None


def add(conn: apsw.Connection, turn: str, call: str, story: str, response: int | None, *, now_ms: int) -> None:
    """Record the call."""
    conn.execute(_INSERT, {"turn": turn, "call": call, "story": story, "response": response, "now": now_ms})


def has_spoken(conn: apsw.Connection, turn: str) -> bool:
    """Whether the turn with this token said or did something."""
    return bool(scalar(conn, "SELECT EXISTS (SELECT 1 FROM spoken WHERE turn = :turn)", {"turn": turn}))


def answered(conn: apsw.Connection, turn: str) -> set[int]:
    """The rows of the messages that the turn has answered already."""
    sql = "SELECT r.in_reply_to FROM spoken s JOIN responses r ON r.id = s.response WHERE s.turn = :turn"
    return {row_id for (row_id,) in rows(conn, sql, {"turn": turn}) if row_id is not None}


_SAID = """
    SELECT r.message
      FROM spoken s
      LEFT JOIN responses r ON r.id = s.response
     WHERE s.story = :story
     ORDER BY s.id
     LIMIT :limit
"""


def said(conn: apsw.Connection, story: str, *, limit: int) -> list[str | None]:
    """The texts of the story, oldest first; None where the text is gone, and for other acts."""
    return [text for (text,) in rows(conn, _SAID, {"story": story, "limit": limit})]


PRUNE = """
    DELETE FROM spoken
     WHERE id IN (SELECT id
                    FROM spoken s
                   WHERE created_at < :cutoff
                     AND NOT EXISTS (SELECT 1
                                       FROM messages
                                      WHERE spoken = s.story AND (status = 'pending' OR status = 'processing'))
                   ORDER BY created_at
                   LIMIT :limit)
"""


def prune(conn: apsw.Connection, *, older_than_ms: int, limit: int) -> int:
    """Delete up to *limit* rows written before that instant, of stories that have ended; their number."""
    conn.execute(PRUNE, {"cutoff": older_than_ms, "limit": limit})
    return conn.changes()
