"""Teams: agents that work together. The leader gets the messages to the team."""

import re
from typing import NamedTuple

import apsw

from shared.core.errors import ConfigInvalid
from shared.db.engine.connection import rows
from shared.db.queue import chat_messages

_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")

_SELECT = """
    SELECT t.id, t.name, t.leader, m.agent
      FROM teams t
      LEFT JOIN team_members m ON m.team_id = t.id
"""


class Team(NamedTuple):
    """A team. *agents* keep the order in which they were given; the *leader* is one of them."""

    id: str
    name: str
    leader: str
    agents: tuple[str, ...]


def _teams(found: list[tuple[str, str, str, str | None]]) -> list[Team]:
    teams: dict[str, Team] = {}
    for id_, name, leader, agent in found:
        team = teams.get(id_, Team(id_, name, leader, ()))
        teams[id_] = team if agent is None else team._replace(agents=(*team.agents, agent))
    return list(teams.values())


def get(conn: apsw.Connection, team_id: str) -> Team | None:
    """The team with this id, or None."""
    found = _teams(rows(conn, _SELECT + " WHERE t.id = :id ORDER BY m.place", {"id": team_id}))
    return found[0] if found else None


def every(conn: apsw.Connection) -> list[Team]:
    """All teams, by id."""
    return _teams(rows(conn, _SELECT + " ORDER BY t.id, m.place"))


def save(conn: apsw.Connection, team: Team, *, now_ms: int) -> None:
    """Create the team, or replace it.

    Raises:
        ConfigInvalid: the id is invalid, an agent is unknown, repeated or named like a person in the room, or the
            leader is not a member.
    """
    _check(conn, team)
    conn.execute(
        """
        INSERT INTO teams (id, name, leader, created_at, updated_at)
        VALUES (:id, :name, :leader, :now, :now)
        ON CONFLICT (id) DO UPDATE SET name = excluded.name, leader = excluded.leader, updated_at = excluded.updated_at
        """,
        {"id": team.id, "name": team.name, "leader": team.leader, "now": now_ms},
    )
    conn.execute("DELETE FROM team_members WHERE team_id = :id", {"id": team.id})
    conn.executemany(
        "INSERT INTO team_members (team_id, agent, place) VALUES (:team, :agent, :place)",
        [{"team": team.id, "agent": agent, "place": place} for place, agent in enumerate(team.agents)],
    )


def _check(conn: apsw.Connection, team: Team) -> None:
    if not _ID.fullmatch(team.id):
        raise ConfigInvalid("a team's id is 1 to 64 of a-z, 0-9, _ and -, and begins with a letter or a digit")
    known = {id_ for (id_,) in rows(conn, "SELECT id FROM agents WHERE retired_at IS NULL")}
    strangers = sorted(set(team.agents) - known)
    if strangers:
        raise ConfigInvalid(f"team {team.id!r}: there is no agent {', '.join(strangers)}")
    if len(set(team.agents)) < len(team.agents):
        raise ConfigInvalid(f"team {team.id!r}: an agent is named twice")
    if chat_messages.USER in team.agents:
        raise ConfigInvalid(f"team {team.id!r}: {chat_messages.USER!r} is the person in its room and can't be an agent")
    if team.leader not in team.agents:
        raise ConfigInvalid(f"team {team.id!r}: its leader {team.leader!r} is not among the agents")


def delete(conn: apsw.Connection, team_id: str) -> bool:
    """Delete the team; the messages of its room stay. False: there is no such team."""
    conn.execute("DELETE FROM teams WHERE id = :id", {"id": team_id})
    return conn.changes() == 1
