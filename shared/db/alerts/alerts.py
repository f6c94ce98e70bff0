"""Alerts: things that are not well, each a row from its first look until long after its end.

::

    (no row) ──noticed──> standing <──gone, back──> gone ──still gone──> over
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple, Self

import apsw

from shared.core.page_links import Page
from shared.db.alerts.alert_routes import AlertKind
from shared.db.engine.columns import assigned, listed
from shared.db.engine.connection import insert_into, rows

TOLD_LATE_MS = 7 * 86_400_000  # what has been over for longer is told no more


class Trouble(NamedTuple):
    """A problem that exists now, in words without people's texts.

    Attributes:
        key: the same for as long as the cause lasts.
        what: the beginning of a sentence: what is not well, and where.
        why: a sentence.
        remedy: what to do, as a sentence.
        since: when it began, in ms UTC.
        page: the view of the operator's page; *page_id*: what it shows.
        channel: the account that it is about, or None.
        latest: when it last happened, in ms UTC; None: it does not repeat.
    """

    key: str
    kind: AlertKind
    what: str
    why: str
    remedy: str
    since: int
    page: Page = "overview"
    page_id: str | None = None
    channel: str | None = None
    latest: int | None = None


class Alert(NamedTuple):
    """A row of ``alerts``; instants in ms UTC. *gone_at*: of the first look without it; *over_at*: of the second."""

    id: int
    trouble: Trouble
    noticed_at: int
    gone_at: int | None
    over_at: int | None

    @classmethod
    def of(cls, row: tuple[object, ...]) -> Self:
        """From the columns of ``_COLUMNS``."""
        id_, *trouble = row[:-3]
        return cls(id_, Trouble(*trouble), *row[-3:])  # type: ignore[arg-type]  # as stored


_COLUMNS = ("id", *Trouble._fields, "noticed_at", "gone_at", "over_at")
_SELECT = f"SELECT {listed(_COLUMNS)} FROM alerts"
STANDING = _SELECT + " INDEXED BY alerts_standing WHERE over_at IS NULL ORDER BY id LIMIT 10000"
STANDS = "SELECT 1 FROM alerts WHERE key = :key AND over_at IS NULL"
LATELY_OVER = _SELECT + " WHERE over_at IS NOT NULL AND over_at > :after ORDER BY over_at DESC LIMIT 1000"
_ADD = insert_into("alerts", (*Trouble._fields, "noticed_at")).replace("INSERT INTO", "INSERT OR IGNORE INTO", 1)
_REFRESH = f"""
    UPDATE alerts
       SET {assigned(("what", "why", "remedy", "page", "page_id", "latest"))}, gone_at = NULL
     WHERE key = :key AND over_at IS NULL
       AND (gone_at IS NOT NULL OR (what, why, remedy, latest) IS NOT (:what, :why, :remedy, :latest))
"""
_GONE = "UPDATE alerts SET gone_at = :now WHERE id = :id AND over_at IS NULL AND gone_at IS NULL"
_OVER = "UPDATE alerts SET over_at = :now WHERE id = :id AND over_at IS NULL AND gone_at <> :now"


def standing(conn: apsw.Connection) -> list[Alert]:
    """Those that are not over, oldest first."""
    return [Alert.of(row) for row in rows(conn, STANDING)]


def stands(conn: apsw.Connection, key: str) -> bool:
    """Whether the one with this key is not over."""
    return bool(rows(conn, STANDS, {"key": key}))


def lately_over(conn: apsw.Connection, *, now_ms: int) -> list[Alert]:
    """Those that are over and whose end may still have to be sent, newest end first."""
    return [Alert.of(row) for row in rows(conn, LATELY_OVER, {"after": now_ms - TOLD_LATE_MS})]


def newest(conn: apsw.Connection, *, limit: int) -> list[Alert]:
    """The newest, whether over or not, newest first."""
    return [Alert.of(row) for row in rows(conn, _SELECT + " ORDER BY id DESC LIMIT :limit", {"limit": limit})]


def note(conn: apsw.Connection, found: Iterable[Trouble], unknown: Collection[AlertKind] = (), *, now_ms: int) -> None:
    """Keep what a look found.

    An alert is over when two looks in a row do not find its problem, so that one that comes and goes does not send
    messages all the time.

    Args:
        unknown: the kinds that the look did not see in full: no alert of these kinds ends.
    """
    now = {each.key: each for each in found}
    known = standing(conn)
    for alert in known:
        trouble = now.pop(alert.trouble.key, None)
        if trouble is not None:
            conn.execute(_REFRESH, trouble._asdict())
        elif alert.trouble.kind not in unknown:
            conn.execute(_GONE if alert.gone_at is None else _OVER, {"id": alert.id, "now": now_ms})
    for trouble in now.values():
        conn.execute(_ADD, (*trouble, now_ms))


def end_all(conn: apsw.Connection, *, now_ms: int) -> None:
    """End all alerts, because nobody looks any more. No route that is added later is told about these ends."""
    conn.execute("UPDATE alerts SET over_at = :now WHERE over_at IS NULL", {"now": now_ms})


PRUNE = """
    DELETE FROM alerts
     WHERE id IN (SELECT id FROM alerts WHERE over_at IS NOT NULL AND over_at < :before ORDER BY over_at LIMIT :limit)
"""


def prune(conn: apsw.Connection, *, older_than_ms: int, limit: int) -> int:
    """Delete the alerts that ended before then, with the records of what was sent about them; the number of them."""
    conn.execute(PRUNE, {"before": older_than_ms, "limit": limit})
    return conn.changes()
