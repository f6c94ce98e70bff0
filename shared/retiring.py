"""Lets agents go, with everything that hangs on them. REST, and so CLI, does it here and nowhere else."""

from typing import Literal

import apsw

from shared import deciding, roster
from shared.db import agents
from shared.errors import WrongState


def delete_agent(conn: apsw.Connection, agent_id: str, *, now_ms: int) -> Literal["deleted", "retired"]:
    """Let the agent go: without a trace if nobody has talked to it, else it is retired, for its messages name it.

    What waits for a yes because of it waits no more: it has nothing to answer, and nothing to be allowed.

    Raises:
        NotFound: there is no such agent.
        WrongState: it is the default, leads a team, or messages wait for it.
    """
    agent = roster.known_agent(conn, agent_id)
    if agent.is_default:
        raise WrongState(
            f"agent {agent_id!r} is the default: messages that name nobody go to it; make another the default first"
        )
    if count := agents.waiting(conn, agent_id):
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
    deciding.withdraw(conn, agent_id, now_ms=now_ms)
    return "retired" if has_history else "deleted"
