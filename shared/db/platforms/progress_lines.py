"""Progress lines: each says in a chat what a running turn does, and is removed when the turn is over.

They are responses like others, so a kill of any process leaves none behind. A line has its row until its removal has
ended, because that has to know the line's response.
"""

from typing import NamedTuple

import apsw

from shared.core import content
from shared.db.engine.connection import insert_into, rows


class ProgressLine(NamedTuple):
    """A row: the turn, and the responses that show it. *turn* is ``messages.claimed_by``.

    Attributes:
        changed_by: its last change, or the line itself, or its removal.
    """

    turn: str
    agent: str
    session_id: int
    response: int
    changed_by: int


class OldLine(NamedTuple):
    """A line whose turn is over. *is_removed*: its removal has ended too."""

    line: ProgressLine
    is_removed: bool


def add(conn: apsw.Connection, line: ProgressLine) -> None:
    """The turn has this line."""
    conn.execute(insert_into("progress_lines", ProgressLine._fields), line)


def change(conn: apsw.Connection, turn: str, response: int) -> None:
    """This response shows the turn from now on."""
    conn.execute(
        "UPDATE progress_lines SET changed_by = :response WHERE turn = :turn", {"turn": turn, "response": response}
    )


def delete(conn: apsw.Connection, turn: str) -> None:
    """The turn has no line any more."""
    conn.execute("DELETE FROM progress_lines WHERE turn = :turn", {"turn": turn})


def of_turn(conn: apsw.Connection, turn: str) -> ProgressLine | None:
    """The line of the turn, or None."""
    found = rows(
        conn,
        "SELECT turn, agent, session_id, response, changed_by FROM progress_lines WHERE turn = :turn",
        {"turn": turn},
    )
    return ProgressLine(*found[0]) if found else None


# Few lines stand at a time: one for each turn that runs, and those whose removals wait.
OVER = """
    SELECT p.turn, p.agent, p.session_id, p.response, p.changed_by, r.status, ifnull(r.content, '{}')
      FROM progress_lines p
      LEFT JOIN responses r ON r.id = p.changed_by
     WHERE NOT EXISTS (SELECT 1
                         FROM messages m
                        WHERE m.agent = p.agent AND m.session_id = p.session_id AND m.trigger = 1
                          AND (m.status = 'pending' OR m.status = 'processing')
                          AND m.status = 'processing' AND m.claimed_by = p.turn)
"""


def over(conn: apsw.Connection) -> list[OldLine]:
    """The lines whose turns are over, however they ended; not those whose removals are under way."""
    found = []
    for *line, status, written in rows(conn, OVER):
        is_removed = "removes" in content.readable(written)
        if not is_removed or status not in ("pending", "delivering"):
            found.append(OldLine(ProgressLine(*line), is_removed))
    return found
