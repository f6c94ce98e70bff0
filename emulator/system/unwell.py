"""What the running Postroom says of its channels, for the chat page."""

from pathlib import Path

import apsw

from shared.conversation.access import channel_watch
from shared.db.engine import past
from shared.db.engine.connection import open_connection


def unwell(database: Path) -> list[str]:
    """A sentence for each channel that is paused, can't send or receives nothing; none while there is no database.

    Of a copy of the past, the one sentence that says so.
    """
    if not database.exists():
        return []
    try:
        conn = open_connection(database, readonly=True)
    except apsw.Error:
        return []
    try:
        if (found := past.read(conn)) is not None:
            return [found.sentence[0].upper() + found.sentence[1:]]
        return channel_watch.troubles(conn)
    except apsw.Error:  # it is being prepared
        return []
    finally:
        conn.close()
