"""A response as its agent may change it afterwards."""

from typing import NamedTuple

import apsw

from shared.core import content
from shared.core.content import ResponseContent
from shared.db.engine.connection import rows


class OwnResponse(NamedTuple):
    """A row of ``responses``. *parts*: how many messages of the platform it is so far."""

    id: int
    message_id: str
    in_reply_to: int | None
    channel: str
    chat_id: int | None
    platform_id: str | None
    thread_id: str | None
    session_id: int | None
    agent: str | None
    sender: str
    message: str
    status: str
    parts: int
    has_files: bool
    content: ResponseContent


_GET = """
    SELECT id, message_id, in_reply_to, channel, chat_id, platform_id, thread_id, session_id, agent, sender, message,
           status, json_array_length(parts), files <> '[]', content
      FROM responses
     WHERE id = :id
"""


def get(conn: apsw.Connection, response_id: int) -> OwnResponse | None:
    """The response in this row, or None."""
    found = rows(conn, _GET, {"id": response_id})
    if not found:
        return None
    return OwnResponse._make((*found[0][:-1], content.readable(found[0][-1])))
