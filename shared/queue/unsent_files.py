"""Files of an answer that could not be sent: the person reads a sentence about each, and the agent is told too."""

from collections.abc import Sequence

import apsw

from shared.db.queue import messages
from shared.db.queue.message_row import Message
from shared.db.queue.messages import NewMessage
from shared.db.queue.responses import Response

_LONGEST = 4000  # characters


def tell_agent(
    conn: apsw.Connection,
    place: Response | Message,
    sentences: Sequence[str],
    *,
    agent: str | None,
    session_id: int | None,
    now_ms: int,
) -> None:
    """Leave what the person read as context for the agent's next turn in that session; nothing where it has none.

    Args:
        place: the response with the files, or the message that it answers.
        sentences: see ``part_plan.told``.
    """
    if not sentences or agent is None or session_id is None:
        return
    note = NewMessage(
        id_prefix="internal",
        channel=place.channel,
        chat_id=place.chat_id,
        platform_id=place.platform_id,
        thread_id=place.thread_id,
        sender="postroom",
        message="\n".join(("Files of your last answer did not reach the person.", *sentences))[:_LONGEST],
        agent=agent,
        session_id=session_id,
        kind="system",
        trigger=False,
    )
    messages.enqueue(conn, note, now_ms=now_ms)
