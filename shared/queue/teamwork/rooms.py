"""A team's room: a post is a line of its history, and every other member of the team reads it.

A post starts a turn of every other member; pending posts share a turn. An agent's answer to a post is a line too, and
*context* for the others, not another question, because otherwise each answer would cause as many more.
"""

from collections.abc import Sequence

import apsw

from shared.channels.base import OutgoingFile
from shared.core import content, hops
from shared.core.content import MessageContent
from shared.core.errors import WrongState
from shared.db.queue import chat_messages, events, messages, sessions
from shared.db.queue.message_row import Message
from shared.db.roster import chats, teams
from shared.db.roster.teams import Team
from shared.queue.teamwork import chains, passed_files
from shared.queue.teamwork.chains import MailLimits

CHANNEL = "chatroom"


def post(
    conn: apsw.Connection,
    team: Team,
    text: str,
    *,
    from_agent: str = chat_messages.USER,
    because: Message | None = None,
    files: Sequence[OutgoingFile] = (),
    limits: MailLimits = chains.LIMITS,
    now_ms: int,
) -> int:
    """Post *text* in the team's room; the id of the line. Each member reads it in its own session for the room.

    Args:
        because: the message in whose turn an agent posts.
        files: copies on this host, which each member finds in its inbox.

    Raises:
        WrongState: the agent is not in the team, or a member can't be given these files.
        MailRefused: the post is beyond a limit; see ``chains``.
    """
    if from_agent == chat_messages.USER:
        return _say(conn, team, text, from_agent=from_agent, is_question=True, carried={"hops": 0}, now_ms=now_ms)
    if from_agent not in team.agents:
        raise WrongState(f"agent {from_agent!r} is not in the team {team.id!r}, so it can't post there: add it first")
    others = [agent for agent in team.agents if agent != from_agent]
    carried = chains.extend(conn, because, from_agent, others, room=team.id, limits=limits, now_ms=now_ms)
    from shared.agents import prompt  # late: ingest imports this module, and repeats no agent

    text = prompt.unwrapped(text)
    passed = passed_files.checked(conn, others, files, limits.files_mb)
    return _say(conn, team, text, from_agent=from_agent, is_question=True, carried=carried, files=passed, now_ms=now_ms)


def answer(
    conn: apsw.Connection,
    team_id: str,
    text: str,
    *,
    from_agent: str,
    because: MessageContent,
    files: Sequence[OutgoingFile] = (),
    limits: MailLimits = chains.LIMITS,
    now_ms: int,
) -> int | None:
    """Store an agent's answer to a post: a line that the others read with their next turn in the room; its id.

    None if the team is gone or the agent has left it.
    """
    team = teams.get(conn, team_id)
    if team is None or from_agent not in team.agents:
        return None
    carried: MessageContent = {"hops": hops.count(because)}
    if origin := hops.origin(because, ""):
        carried["origin"] = origin
    others = [agent for agent in team.agents if agent != from_agent]
    text, passed = passed_files.with_answer(conn, others, text, files, limits.files_mb)
    return _say(
        conn, team, text, from_agent=from_agent, is_question=False, carried=carried, files=passed, now_ms=now_ms
    )


def _say(
    conn: apsw.Connection,
    team: Team,
    text: str,
    *,
    from_agent: str,
    is_question: bool,
    carried: MessageContent,
    files: str = "[]",
    now_ms: int,
) -> int:
    line = chat_messages.append(
        conn, team=team.id, from_agent=from_agent, message=text, origin=hops.origin(carried, ""), now_ms=now_ms
    )
    room = chats.ensure(conn, CHANNEL, team.id, is_group=True, name=team.name, now_ms=now_ms)
    heard = messages.NewMessage(
        id_prefix="chat",
        channel=CHANNEL,
        chat_id=room.id,
        platform_id=team.id,
        sender=from_agent,
        message=f"[Chat room #{team.id} — @{from_agent}]:\n{text}",
        content=content.encode({"team": team.id, "line": line, **carried}),
        files=files,
        from_agent=None if from_agent == chat_messages.USER else from_agent,
        trigger=is_question,
    )
    others = [agent for agent in team.agents if agent != from_agent]
    for agent in others:
        session = sessions.ensure(conn, agent, room.id, None, now_ms=now_ms)
        messages.enqueue(conn, heard._replace(agent=agent, session_id=session), now_ms=now_ms)
    events.append(
        conn, "room_line", now_ms=now_ms, channel=CHANNEL, data={"team": team.id, "line": line, "from": from_agent}
    )
    return line
