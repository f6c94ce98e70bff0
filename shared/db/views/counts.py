"""How many rows need a person."""

import apsw

_DEAD = """
    SELECT (SELECT count(*) FROM messages WHERE status = 'dead'),
           (SELECT count(*) FROM responses
             WHERE status = 'dead' AND coalesce(failure, '') NOT IN ('not_fetched', 'called_off'))
"""


def dead(conn: apsw.Connection) -> tuple[int, int]:
    """Dead messages, and responses that could not be sent. One that no client fetched needs nobody."""
    found: tuple[int, int] = conn.execute(_DEAD).get
    return found
