"""Which alerts each route was told, and by which response.

::

    (no row) ──began──> told ──ended──> told twice
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

import apsw

from shared.db.engine.connection import rows, scalar


class AlertTelling(NamedTuple):
    """A row of ``alert_tellings``; instants in ms UTC.

    Attributes:
        route: the route whose turn it was; *said_by*: the one that said it.
        told_by: the response; *over_told_by*: that which said that it is over.
    """

    alert_id: int
    route: str
    said_by: str
    told_at: int
    told_by: int
    over_told_at: int | None
    over_told_by: int | None


_SELECT = """
    SELECT alert_id, route, said_by, told_at, told_by, over_told_at, over_told_by
      FROM alert_tellings
"""
OF_ALERTS = _SELECT + " WHERE alert_id IN (SELECT value FROM json_each(:alerts)) ORDER BY alert_id, route"


def of_alerts(conn: apsw.Connection, alert_ids: Sequence[int]) -> list[AlertTelling]:
    """The tellings of these alerts."""
    return [AlertTelling(*row) for row in rows(conn, OF_ALERTS, {"alerts": json.dumps(alert_ids)})]


def begin(conn: apsw.Connection, alert_id: int, route: str, *, said_by: str, response: int, now_ms: int) -> None:
    """The route was told by this response that the thing began, or happened again."""
    conn.execute(
        """
        INSERT INTO alert_tellings (alert_id, route, said_by, told_at, told_by)
        VALUES (:alert, :route, :said_by, :now, :response)
        ON CONFLICT DO UPDATE
           SET said_by = excluded.said_by, told_at = excluded.told_at, told_by = excluded.told_by
        """,
        {"alert": alert_id, "route": route, "said_by": said_by, "response": response, "now": now_ms},
    )


def end(conn: apsw.Connection, alert_id: int, route: str, *, response: int, now_ms: int) -> None:
    """The route was told by this response that the thing is over."""
    conn.execute(
        """
        UPDATE alert_tellings
           SET over_told_at = :now, over_told_by = :response
         WHERE alert_id = :alert AND route = :route AND over_told_at IS NULL
        """,
        {"alert": alert_id, "route": route, "response": response, "now": now_ms},
    )


SAID = """
    SELECT count(*)
      FROM (SELECT told_by FROM alert_tellings
             WHERE said_by = :route AND told_at > :after AND told_at <= :now
             UNION
            SELECT over_told_by FROM alert_tellings
             WHERE said_by = :route AND over_told_at > :after AND over_told_at <= :now)
"""


def said_since(conn: apsw.Connection, route: str, *, after_ms: int, now_ms: int) -> int:
    """How many messages the route got after that instant; a later one than *now_ms* is of a clock that was ahead."""
    count: int = scalar(conn, SAID, {"route": route, "after": after_ms, "now": now_ms})
    return count
