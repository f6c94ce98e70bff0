"""Keeps the address that was registered for an account, so that Postroom knows when another program takes the bot."""

from pathlib import Path

import apsw

from shared.core.time import clock
from shared.db.engine.connection import open_connection, transaction
from shared.db.platforms import channel_watches


def keep(database: Path, account: str, url: str) -> bool:
    """Write *url*, which has no secret, into Postroom's database; False: there is none that can be written to."""
    if not database.is_file():
        return False
    try:
        conn = open_connection(database)
        try:
            with transaction(conn):
                channel_watches.note_ours(conn, account, url, now_ms=clock.now_ms())
        finally:
            conn.close()
    except (apsw.Error, OSError):
        return False
    return True
