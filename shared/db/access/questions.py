"""Questions: an agent waits for a person's answer, until an instant.

::

    ask ──> open ──answer──> answered
             └──expire─────> expired

Each way out is one UPDATE that expects an open question: of two answers at once, the second finds it closed.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

from shared.core import content, ids
from shared.core.errors import NotFound, WrongState
from shared.db.engine.connection import rows, scalar
from shared.db.queue import events


class Question(NamedTuple):
    """A row of ``questions``.

    Attributes:
        message_id: the message whose turn asks.
        options: the choices, if any.
        chat_id: where it was asked; None where a client fetches what is said.
        private_to: only this person sees it and may answer, by the platform's id; None: everybody in the chat.
        card: the row of the response that shows it.
        click: channel and key of the press that answered it, by which a redelivery is known.
    """

    question_id: str
    session_id: int
    message_id: str | None
    question: str
    options: tuple[str, ...]
    status: str
    answer: str | None
    answered_by: str | None
    expires_at: int
    created_at: int
    chat_id: int | None
    thread_id: str | None
    private_to: str | None
    card: int | None
    click: str | None


_SELECT = """
    SELECT question_id, session_id, message_id, question, options, status, answer, answered_by, expires_at, created_at,
           chat_id, thread_id, private_to, card, click
      FROM questions
"""


def _question(row: tuple[Any, ...]) -> Question:
    values = dict(zip(Question._fields, row, strict=True))
    values["options"] = tuple(content.readable_list(values["options"]))
    return Question(**values)


# Few questions are kept, and reactions to their cards are rare: no index is worth its writes.
def of_card(conn: apsw.Connection, card: int) -> Question | None:
    """The question that the response in this row shows, or None."""
    found = rows(conn, _SELECT + " WHERE card = :card ORDER BY id DESC LIMIT 1", {"card": card})
    return _question(found[0]) if found else None


def ask(
    conn: apsw.Connection,
    *,
    session_id: int,
    question: str,
    options: tuple[str, ...] = (),
    message_id: str | None = None,
    expires_at: int,
    now_ms: int,
) -> str:
    """Insert the question; returns its id."""
    question_id = ids.new("question")
    conn.execute(
        """
        INSERT INTO questions (question_id, session_id, message_id, question, options, expires_at,
                               created_at, updated_at)
        VALUES (:question_id, :session, :message_id, :question, :options, :expires_at, :now, :now)
        """,
        {
            "question_id": question_id,
            "session": session_id,
            "message_id": message_id,
            "question": question,
            "options": json.dumps(options),
            "expires_at": expires_at,
            "now": now_ms,
        },
    )
    _tell(conn, "question_asked", (question_id, message_id, session_id), now_ms=now_ms)
    return question_id


def get(conn: apsw.Connection, question_id: str) -> Question | None:
    """The question, or None."""
    found = rows(conn, _SELECT + " WHERE question_id = :id", {"id": question_id})
    return _question(found[0]) if found else None


def show(
    conn: apsw.Connection,
    question_id: str,
    *,
    chat_id: int | None,
    thread_id: str | None,
    private_to: str | None,
    card: int,
) -> None:
    """Keep where an open question was asked, and the response that shows it."""
    conn.execute(
        """
        UPDATE questions
           SET chat_id = :chat, thread_id = :thread, private_to = :private_to, card = :card
         WHERE question_id = :id AND status = 'open'
        """,
        {"id": question_id, "chat": chat_id, "thread": thread_id, "private_to": private_to, "card": card},
    )


OPEN_COUNT = "SELECT count(*) FROM questions WHERE session_id = :session AND status = 'open'"


def open_count(conn: apsw.Connection, session_id: int) -> int:
    """How many questions of the session are open."""
    found: int = scalar(conn, OPEN_COUNT, {"session": session_id})
    return found


OF_TURN = """
    SELECT question_id, session_id, message_id, question, options, status, answer, answered_by, expires_at, created_at,
           chat_id, thread_id, private_to, card, click, NULL
      FROM questions
     WHERE session_id = :session AND status = 'open'
     UNION ALL
    SELECT question_id, session_id, message_id, question, options, status, answer, answered_by, expires_at, created_at,
           chat_id, thread_id, private_to, card, click, answered_in
      FROM questions
     WHERE answered_in IN (SELECT value FROM json_each(:messages))
"""


def of_turn(conn: apsw.Connection, session_id: int, message_rows: Sequence[int]) -> list[tuple[Question, int | None]]:
    """The open questions of the session, and those that one of these messages answered, with its row."""
    found = rows(conn, OF_TURN, {"session": session_id, "messages": json.dumps(list(message_rows))})
    return [(_question(row[:-1]), row[-1]) for row in found]


def answer(
    conn: apsw.Connection,
    question_id: str,
    text: str,
    *,
    answered_by: str | None,
    answered_in: int | None = None,
    click: str | None = None,
    now_ms: int,
) -> None:
    """Answer the question.

    Args:
        answered_by: for display, never compared.
        answered_in: the row of the message whose text answers it.
        click: channel and key of the press that answers it.

    Raises:
        NotFound: there is no such question.
        WrongState: it is answered already, or its time is over.
    """
    found = rows(
        conn,
        """
        UPDATE questions
           SET status = 'answered', answer = :answer, answered_by = :answered_by, answered_in = :answered_in,
               click = :click, updated_at = :now
         WHERE question_id = :id AND status = 'open' AND expires_at > :now
        RETURNING question_id, message_id, session_id
        """,
        {
            "answer": text,
            "answered_by": answered_by,
            "answered_in": answered_in,
            "click": click,
            "now": now_ms,
            "id": question_id,
        },
    )
    _check_changed(conn, question_id, found)
    _tell(conn, "question_answered", found[0], now_ms=now_ms)


EXPIRE = """
    UPDATE questions
       SET status = 'expired', updated_at = :now
     WHERE id IN (SELECT id
                    FROM questions
                   WHERE status = 'open' AND expires_at <= :now
                   ORDER BY expires_at
                   LIMIT :limit)
    RETURNING question_id, message_id, session_id
"""


def expire(conn: apsw.Connection, *, limit: int, now_ms: int) -> int:
    """Expire up to *limit* questions whose time is over; how many."""
    found = rows(conn, EXPIRE, {"now": now_ms, "limit": limit})
    for each in sorted(found):
        _tell(conn, "question_expired", each, now_ms=now_ms)
    return len(found)


def _check_changed(conn: apsw.Connection, question_id: str, changed: list[tuple[str, str | None, int]]) -> None:
    if changed:
        return
    known = get(conn, question_id)
    if known is None:
        raise NotFound(f"there is no question {question_id!r}")
    state = "expired" if known.status == "open" else known.status
    raise WrongState(f"question {question_id} is {state} already")


def _tell(conn: apsw.Connection, type_: str, of: tuple[str, str | None, int], *, now_ms: int) -> None:
    question_id, message_id, session_id = of
    events.append(
        conn, type_, now_ms=now_ms, message_id=message_id, session_id=session_id, data={"question": question_id}
    )
