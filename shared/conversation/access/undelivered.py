"""Tells an approver that an answer could not reach its topic or thread: it goes nowhere else, so nobody there knows."""

import apsw

from shared.conversation.access import cards, people, requests
from shared.db.access import rates
from shared.db.queue.responses import Response
from shared.db.roster import agents, chats

_PER_MINUTE = 1 / 60  # for each topic: each of its answers fails until somebody opens it again


def tell(conn: apsw.Connection, response: Response, reason: str, *, now_ms: int) -> bool:
    """Tell the first approver of the response's agent who can be reached, once an hour for each topic.

    False: nobody was told. The row of the response and the log have the reason in any case.
    """
    key = rates.key("undelivered", response.channel, str(response.chat_id), response.thread_id or "")
    if not rates.take(conn, key, per_minute=_PER_MINUTE, burst=1, now_ms=now_ms).allowed:
        return False
    approvers = people.approvers(conn, response.agent, channel=response.channel)
    said, chat = _sentence(conn, response, reason), response.chat_id
    return people.tell_first(conn, approvers, said, page=("chat", chat), but_chat=chat, now_ms=now_ms) is not None


def _sentence(conn: apsw.Connection, response: Response, reason: str) -> str:
    agent = agents.get(conn, response.agent) if response.agent is not None else None
    chat = chats.get(conn, response.chat_id)
    name = cards.escape(cards.line(agent.name, cards.LONGEST_NAME)) if agent else "Postroom"
    place = cards.escape(requests.describe(chat)) if chat else "a chat that is gone"
    topic = f"topic {cards.escape(response.thread_id)} of " if response.thread_id else ""
    why = cards.escape(cards.line(reason))
    again = f"To send it again, type `emulator responses retry {response.id}`."
    return f"An answer of {name} did not reach {topic}{place}. {why}. {again}"
