"""Lets agents and chats go, with everything that hangs on them. REST, and so CLI, does it here and nowhere else."""

from typing import Literal

import apsw

from shared.access import people
from shared.core.errors import NotFound, WrongState
from shared.db.roster import agents, chats
from shared.inbound import decisions
from shared.roster import agents_and_teams


def delete_agent(conn: apsw.Connection, agent_id: str, *, now_ms: int) -> Literal["deleted", "retired"]:
    """Let the agent go: without a trace if nobody has talked to it, else it is retired, for its messages name it.

    What waits for a yes because of it waits no more: it has nothing to answer, and nothing to be allowed.

    Raises:
        NotFound: there is no such agent.
        WrongState: it is the default, leads a team, or messages wait for it.
    """
    agent = agents_and_teams.known_agent(conn, agent_id)
    if agent.is_default:
        raise WrongState(
            f"agent {agent_id!r} is the default: messages that name nobody go to it; make another the default first"
        )
    if count := agents.count_open_messages(conn, agent_id):
        messages = "1 message waits" if count == 1 else f"{count} messages wait"
        raise WrongState(
            f"{messages} for agent {agent_id!r}, counting what is scheduled: let it answer, "
            "or cancel them (POST /api/messages/{id}/cancel, DELETE /api/schedules/{id})"
        )
    has_history = agents.has_history(conn, agent_id)
    if has_history:
        agents.retire(conn, agent_id, now_ms=now_ms)
    else:
        agents.delete(conn, agent_id)
    decisions.withdraw_agent(conn, agent_id, now_ms=now_ms)
    return "retired" if has_history else "deleted"


def delete_chat(conn: apsw.Connection, chat_id: int, *, now_ms: int) -> Literal["deleted", "retired"]:
    """Let nobody answer there, send there or be asked about it; without a trace if nothing was ever said there.

    Else the chat is retired: inactive and refused, for what was said names it.

    Raises:
        NotFound: there is no such chat.
        WrongState: something waits there, or it would be retired and the last owner is asked there.
    """
    chat = chats.get(conn, chat_id)
    if chat is None:
        raise NotFound(f"there is no chat {chat_id}; GET /api/chats lists them")
    if count := chats.count_open(conn, chat_id):
        what = "1 message or response waits" if count == 1 else f"{count} messages and responses wait"
        raise WrongState(
            f"{what} in chat {chat_id}, counting what is scheduled: let them be answered and sent, or cancel them "
            "(POST /api/messages/{id}/cancel, DELETE /api/schedules/{id})"
        )
    decisions.withdraw_chat(conn, chat_id, now_ms=now_ms)
    if chats.is_unused(conn, chat_id):
        chats.delete(conn, chat_id)
        return "deleted"
    if owner := people.last_owner_in(conn, chat):
        raise WrongState(
            f"the last owner, user {owner}, is written to in chat {chat_id}: nobody would be asked anything any more. "
            "Make somebody else an owner first; for no agent to answer there, delete its wirings"
        )
    chats.retire(conn, chat_id, now_ms=now_ms)
    return "retired"
