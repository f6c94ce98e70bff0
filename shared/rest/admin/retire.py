"""Deletes or retires agents and chats, with the rows that depend on them. REST and CLI do it here alone."""

from typing import Literal

import apsw

from shared.conversation.access import people
from shared.conversation.inbound import undecided
from shared.core.errors import NotFound, WrongState
from shared.db.roster import agents, chats
from shared.roster import agents_and_teams


def delete_agent(conn: apsw.Connection, agent_id: str, *, now_ms: int) -> Literal["deleted", "retired"]:
    """Delete the agent if it has no sessions; otherwise retire it, because its messages name it.

    Its pending approvals end with it.

    Raises:
        NotFound: there is no such agent.
        WrongState: it is the default, leads a team, or has open messages.
    """
    agent = agents_and_teams.known_agent(conn, agent_id)
    if agent.is_default:
        raise WrongState(
            f"agent {agent_id!r} is the default, which gets every message that names no agent: make another agent the "
            "default first"
        )
    if count := agents.count_open_messages(conn, agent_id):
        messages = "1 message waits" if count == 1 else f"{count} messages wait"
        raise WrongState(
            f"{messages} for agent {agent_id!r}, scheduled ones included: let it answer, "
            "or cancel them (POST /api/messages/{id}/cancel, DELETE /api/schedules/{id})"
        )
    has_history = agents.has_history(conn, agent_id)
    if has_history:
        agents.retire(conn, agent_id, now_ms=now_ms)
    else:
        agents.delete(conn, agent_id)
    undecided.withdraw_agent(conn, agent_id, now_ms=now_ms)
    return "retired" if has_history else "deleted"


def delete_chat(conn: apsw.Connection, chat_id: int, *, now_ms: int) -> Literal["deleted", "retired"]:
    """Delete the chat if it has no messages; otherwise retire it, because its messages name it.

    In a retired chat no agent answers, nothing is sent, and no approver is asked about it.

    Raises:
        NotFound: there is no such chat.
        WrongState: it has open messages or responses, or it is where the last owner is asked.
    """
    chat = chats.get(conn, chat_id)
    if chat is None:
        raise NotFound(f"there is no chat {chat_id}; GET /api/chats lists them")
    if count := chats.count_open(conn, chat_id):
        what = "1 message or response waits" if count == 1 else f"{count} messages and responses wait"
        raise WrongState(
            f"{what} in chat {chat_id}, scheduled ones included: let them be answered and sent, or cancel them "
            "(POST /api/messages/{id}/cancel, DELETE /api/schedules/{id})"
        )
    undecided.withdraw_chat(conn, chat_id, now_ms=now_ms)
    if chats.is_unused(conn, chat_id):
        chats.delete(conn, chat_id)
        return "deleted"
    if owner := people.last_owner_in(conn, chat):
        raise WrongState(
            f"chat {chat_id} is where the last owner, user {owner}, is asked: without it nobody gets a card. "
            "Make another user an owner first; to stop agents from answering there, delete its wirings"
        )
    chats.retire(conn, chat_id, now_ms=now_ms)
    return "retired"
