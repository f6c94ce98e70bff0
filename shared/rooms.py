"""A team's room: what is said there stands in its history, and reaches every other member as a message."""

import apsw

from shared.db import chat_messages, chats, messages, sessions
from shared.db.teams import Team

CHANNEL = "chatroom"


def post(conn: apsw.Connection, team: Team, text: str, *, from_agent: str = chat_messages.USER, now_ms: int) -> int:
    """Say *text* in the team's room; the line's id. Each member hears it in a session of its own for the room."""
    line = chat_messages.append(conn, team=team.id, from_agent=from_agent, message=text, now_ms=now_ms)
    room = chats.ensure(conn, CHANNEL, team.id, is_group=True, name=team.name, now_ms=now_ms)
    for agent in team.agents:
        if agent == from_agent:
            continue
        new = messages.NewMessage(
            id_prefix="chat",
            channel=CHANNEL,
            platform_id=team.id,
            sender=from_agent,
            message=f"[Chat room #{team.id} — @{from_agent}]:\n{text}",
            agent=agent,
            from_agent=None if from_agent == chat_messages.USER else from_agent,
            session_id=sessions.ensure(conn, agent, room.id, None, now_ms=now_ms),
        )
        messages.enqueue(conn, new, now_ms=now_ms)
    return line
