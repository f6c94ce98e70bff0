"""Direct chats that a platform opens on demand: until then they stand in ``chats``, and ``opens_for`` says with whom.

Discord gives nobody's direct chat away before it is asked to open it. What is to be said there waits in the meantime,
under a ``platform_id`` of our own.
"""

import apsw

from shared.db.connection import scalar


def opened(conn: apsw.Connection, chat_id: int, platform_id: str, *, now_ms: int) -> int:
    """The platform knows the chat as *platform_id*; what waits goes there. The id of the chat that it is now.

    Where they had written there before, that chat is the one: what waits and who is written to move to it. Safe to
    call twice: nothing waits in the one that was opened.
    """
    known: int | None = scalar(
        conn,
        """
        SELECT c.id
          FROM chats mine
          JOIN chats c ON c.channel = mine.channel AND c.platform_id = :platform_id
         WHERE mine.id = :chat
        """,
        {"platform_id": platform_id, "chat": chat_id},
    )
    now_chat = chat_id if known is None else known
    where = {"chat": chat_id, "now_chat": now_chat, "platform_id": platform_id}
    if known is None:
        conn.execute(
            "UPDATE chats SET platform_id = :platform_id, opens_for = NULL, updated_at = :now WHERE id = :chat",
            {"platform_id": platform_id, "now": now_ms, "chat": chat_id},
        )
    else:
        conn.execute("UPDATE user_dms SET chat_id = :now_chat WHERE chat_id = :chat", where)
    conn.execute(MOVE, where)
    return now_chat


MOVE = """
    UPDATE responses
       SET chat_id = :now_chat, platform_id = :platform_id
     WHERE channel = (SELECT channel FROM chats WHERE id = :chat) AND chat_id = :chat
       AND (status = 'pending' OR status = 'delivering')
"""
