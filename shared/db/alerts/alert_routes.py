"""Routes of alerts: the chats and webhooks that are told what is not well."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

import apsw
from annotated_types import Ge, Le, MaxLen
from pydantic import AfterValidator

from shared.core.row_settings import RowSetting, settings_of
from shared.core.time import hours
from shared.db.engine.columns import Columns, bound, listed, replaced
from shared.db.engine.connection import rows

AlertKind = Literal["stuck", "dead", "deaf", "behind", "money", "disk", "paused"]
KINDS: Sequence[AlertKind] = get_args(AlertKind)
WEBHOOK = "alert-webhook"  # the channel of the one chat that stands for the operator's webhook
PLACE = "alerts"  # the id of that chat; a client of REST may use any other
STUCK = "stuck webhook"  # the key of the alert that the webhook takes none
_URGENT: Sequence[AlertKind] = ("deaf", "behind", "disk")
_WEEK_MS = 7 * 86_400_000


@dataclass(frozen=True, slots=True)
class AlertRoute:
    """A row of ``alert_routes``, and the one list of a route's settings: see :mod:`shared.core.row_settings`.

    Attributes:
        digest_at: when it had its last digest, in ms UTC, or None.
        updated_at: what was over before is not told.
    """

    name: str
    chat_id: int
    updated_at: int
    digest_at: int | None = None
    kinds: Annotated[
        list[AlertKind],
        MaxLen(len(KINDS)),
        RowSetting(f"The kinds that it reports, with commas: {', '.join(KINDS)}.", "tells", unset="everything"),
    ] = field(default_factory=list)
    urgent: Annotated[
        list[AlertKind],
        MaxLen(len(KINDS)),
        RowSetting("Of these, the kinds that it reports at once, even in quiet hours, with commas.", "at once"),
    ] = field(default_factory=lambda: list(_URGENT))
    quiet_hours: Annotated[
        str | None,
        MaxLen(11),
        AfterValidator(hours.checked),
        RowSetting(
            "Hours such as 22:00-07:00 in which it reports only what is urgent; the rest follows as one digest.",
            "quiet hours",
            unset="none",
        ),
    ] = None
    timezone: Annotated[
        str | None,
        MaxLen(64),
        AfterValidator(hours.checked_zone),
        RowSetting("The time zone of its hours, such as Europe/Zurich.", "time zone", unset="`POSTROOM_TIMEZONE`"),
    ] = None
    digest_ms: Annotated[
        int | None,
        Ge(60_000),
        Le(_WEEK_MS),
        RowSetting(
            "How often it reports what is not urgent, as one digest, such as 30m.",
            "a digest every",
            unset="each thing at once",
            option="--digest",
        ),
    ] = None

    def takes(self, kind: AlertKind) -> bool:
        """Whether it is told of this kind."""
        return not self.kinds or kind in self.kinds


SETTINGS = settings_of(AlertRoute)
_COLUMNS = Columns(AlertRoute)
_SELECT = f"SELECT {_COLUMNS.selected} FROM alert_routes"
_PUT = f"""
    INSERT INTO alert_routes (name, chat_id, {listed(SETTINGS)}, created_at, updated_at)
    VALUES (:name, :chat_id, {bound(SETTINGS)}, :updated_at, :updated_at)
    ON CONFLICT (name) DO UPDATE
       SET chat_id = excluded.chat_id, {replaced(SETTINGS)}, updated_at = excluded.updated_at
"""


def every(conn: apsw.Connection) -> list[AlertRoute]:
    """All routes, by name."""
    return [_COLUMNS.read(row) for row in rows(conn, _SELECT + " ORDER BY name")]


def get(conn: apsw.Connection, name: str) -> AlertRoute | None:
    """The route, or None."""
    found = rows(conn, _SELECT + " WHERE name = :name", {"name": name})
    return _COLUMNS.read(found[0]) if found else None


def put(conn: apsw.Connection, route: AlertRoute) -> None:
    """Create the route, or replace all of its settings."""
    conn.execute(_PUT, _COLUMNS.bindings(route))


def delete(conn: apsw.Connection, name: str) -> bool:
    """Delete the route, and what is known of its messages. False: there is none."""
    conn.execute("DELETE FROM alert_routes WHERE name = :name", {"name": name})
    return conn.changes() == 1


def note_digest(conn: apsw.Connection, name: str, *, now_ms: int) -> None:
    """The route had a digest now."""
    conn.execute("UPDATE alert_routes SET digest_at = :now WHERE name = :name", {"name": name, "now": now_ms})
