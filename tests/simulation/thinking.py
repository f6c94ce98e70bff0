"""What shows that an agent is at work ends with its turn: no bot goes on typing in a chat that nobody works for."""

from tests.simulation.parts import Query

LINGERS_MS = 60_000
"""A turn that lost its messages to another (its process stood still, or its disk failed) may show for so long that it
is at work."""

_WORKS = """
    SELECT 1 FROM messages
     WHERE (channel = '{account}' AND platform_id = '{chat}' OR channel IN ('internal', 'chatroom'))
       AND (status = 'processing' OR updated_at > {since})
     LIMIT 1
"""


def is_over(query: Query, account: str, chat: str, now_ms: int) -> bool:
    """Whether the last turn whose answers go to this chat, or which works for one that does, ended long ago."""
    return not query(_WORKS.format(account=account, chat=chat, since=now_ms - LINGERS_MS))
