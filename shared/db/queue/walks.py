"""Where a walk over a table from its oldest row ends."""

from typing import Literal

import apsw

from shared.db.engine.connection import scalar

_LOOK_AHEAD = 250  # rows


def old_rows_follow(
    conn: apsw.Connection, table: Literal["messages", "responses"], *, after_id: int, older_than_ms: int
) -> bool:
    """Whether one of the next rows after *after_id* was created before *older_than_ms*.

    Ids grow with time, except where the clock was ahead for a while. A step of a walk may look at a single row, which
    can't tell the end of what is old from such a row.
    """
    return bool(
        scalar(
            conn,
            f"""
            SELECT min(created_at) < :cutoff
              FROM (SELECT created_at FROM {table} WHERE id > :after ORDER BY id LIMIT :ahead)
            """,  # noqa: S608
            {"after": after_id, "cutoff": older_than_ms, "ahead": _LOOK_AHEAD},
        )
    )
