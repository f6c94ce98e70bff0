"""Every agent's history; append-only."""

import apsw


def append(
    conn: apsw.Connection,
    *,
    agent: str,
    role: str,
    channel: str,
    sender: str,
    message_id: str,
    content: str,
    now_ms: int,
) -> None:
    """Add one line to the agent's history; *role* is ``user`` or ``assistant``."""
    conn.execute(
        """
        INSERT INTO agent_messages (agent_id, role, channel, sender, message_id, content, created_at)
        VALUES (:agent, :role, :channel, :sender, :message_id, :content, :now)
        """,
        {
            "agent": agent,
            "role": role,
            "channel": channel,
            "sender": sender,
            "message_id": message_id,
            "content": content,
            "now": now_ms,
        },
    )
