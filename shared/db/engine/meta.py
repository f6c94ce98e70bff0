"""The ``meta`` table, facts about the database itself: schema version, epoch, the heartbeat of the sweep."""

import apsw

from shared.core import ids
from shared.db.engine.connection import scalar


def get(conn: apsw.Connection, key: str) -> str | None:
    """The value under *key*, or None."""
    value: str | None = scalar(conn, "SELECT value FROM meta WHERE key = :key", {"key": key})
    return value


def put(conn: apsw.Connection, key: str, value: str) -> None:
    conn.execute(
        "INSERT INTO meta (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        {"key": key, "value": value},
    )


def began_at(conn: apsw.Connection) -> int:
    """When this database was first made, in ms UTC."""
    return int(get(conn, "began_at") or 0)


def ensure_began(conn: apsw.Connection, *, now_ms: int) -> None:
    """Record when this database was first made, unless that is recorded already."""
    conn.execute("INSERT INTO meta (key, value) VALUES ('began_at', :now) ON CONFLICT DO NOTHING", {"now": str(now_ms)})


def ensure_epoch(conn: apsw.Connection) -> None:
    """Give this history an epoch, if it has none yet."""
    conn.execute(
        "INSERT INTO meta (key, value) VALUES ('epoch', :new) ON CONFLICT DO NOTHING", {"new": ids.new("epoch")}
    )
