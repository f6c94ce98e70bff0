"""Applies a file of agents and teams to the database: everything that it names, or nothing if one entry is invalid.

A setting that the file does not name stays. An agent or team that is only in the database stays too, unless deleting is
asked for. The caller owns the transaction, and rolls it back when this fails.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import apsw

from shared.core.errors import ConfigInvalid, NotFound
from shared.rest.admin import retire
from shared.roster import accounts, agents_and_teams, roster_file
from shared.roster.roster_file import Roster, RosterDifference


class AppliedFile(NamedTuple):
    """The changes in order, such as ``agents.coder model``, and the tables that are only in the database and stay."""

    done: list[str]
    kept: list[str]


def apply(conn: apsw.Connection, file: Roster, *, is_deleting: bool, timezone: str, now_ms: int) -> AppliedFile:
    """Create or change what the file names, in an order in which every reference exists.

    Args:
        is_deleting: delete agents and teams that are only in the database.
        timezone: the time zone of each new agent for which the file names none.

    Raises:
        ConfigInvalid: entries are invalid; the message says which, and why, of all of them.
        WrongState: an agent or team can't be deleted; the message says why.
    """
    found = roster_file.differences(file, roster_file.read_database(conn))
    done, refused = _save_agents(conn, file, found, timezone=timezone, now_ms=now_ms)
    more, problems = _save_teams(conn, file, found, refused, now_ms=now_ms)
    done += more
    more, wrong = _save_accounts(conn, file, found, refused, now_ms=now_ms)
    done, problems = done + more, problems + wrong
    if refused or problems:
        raise ConfigInvalid("; ".join([*refused.values(), *problems]))
    gone = [each.table for each in reversed(found) if each.file is None and not each.field]  # teams before their agents
    if not is_deleting:
        return AppliedFile(done, gone[::-1])
    for table in gone:
        _delete(conn, table, now_ms=now_ms)
        done.append(f"{table} deleted")
    return AppliedFile(done, [])


def _save_agents(
    conn: apsw.Connection, file: Roster, found: Sequence[RosterDifference], *, timezone: str, now_ms: int
) -> tuple[list[str], dict[str, str]]:
    """The changes; and of each agent that is invalid the reason, by its id."""
    done, refused = [], {}
    for id_, what, change in _changes("agents", file.agents, found):
        try:
            agents_and_teams.save_agent(conn, id_, change, timezone=timezone, now_ms=now_ms)
            done.append(what)
        except ConfigInvalid as error:
            refused[id_] = str(error)
    for each in found:
        if each.where == "default" and each.file not in refused:
            agents_and_teams.save_agent(conn, each.file, {"default": True}, now_ms=now_ms)
            done.append(f"default {each.file}")
    return done, refused


def _save_teams(
    conn: apsw.Connection,
    file: Roster,
    found: Sequence[RosterDifference],
    refused: Mapping[str, str],
    *,
    now_ms: int,
) -> tuple[list[str], list[str]]:
    """The changes, and the problems; a team of an agent that was refused is not judged."""
    done, problems = [], []
    for id_, what, change in _changes("teams", file.teams, found):
        if not refused.keys().isdisjoint((*change.get("agents", ()), change.get("leader"))):
            continue
        try:
            agents_and_teams.save_team(conn, id_, change, now_ms=now_ms)
            done.append(what)
        except ConfigInvalid as error:
            problems.append(str(error))
    return done, problems


def _save_accounts(
    conn: apsw.Connection,
    file: Roster,
    found: Sequence[RosterDifference],
    refused: Mapping[str, str],
    *,
    now_ms: int,
) -> tuple[list[str], list[str]]:
    """The changes, and the problems; an account of an agent that was refused is not judged."""
    done, problems = [], []
    for name, what, _ in _changes("accounts", file.accounts, found):
        agent = file.accounts[name].get("agent")
        if agent in refused:
            continue
        try:
            accounts.declare(conn, name, agent, now_ms=now_ms)
            done.append(what)
        except (ConfigInvalid, NotFound) as error:
            problems.append(f"accounts.{name}: {error}")
    return done, problems


def _changes(
    kind: str, file: Mapping[str, Mapping[str, Any]], found: Sequence[RosterDifference]
) -> list[tuple[str, str, dict[str, Any]]]:
    """For each agent or team that differs: its id, the change in words, and the settings to save."""
    differing: dict[str, list[str]] = {}
    for each in found:
        if each.table.startswith(f"{kind}.") and (each.field or each.database is None):
            differing.setdefault(each.table.removeprefix(f"{kind}."), []).append(each.field)
    return [
        (id_, f"{kind}.{id_} {', '.join(filter(None, fields)) or 'made'}", _settings(file[id_], fields))
        for id_, fields in differing.items()
    ]


def _settings(given: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """The settings that differ; for a new entry, all of them. ``share_folder`` goes with a folder."""
    wanted = {*fields, "share_folder"} if "folder" in fields else {*fields}
    return {name: value for name, value in given.items() if fields == [""] or name in wanted}


def _delete(conn: apsw.Connection, table: str, *, now_ms: int) -> None:
    kind, _, id_ = table.partition(".")
    if kind == "teams":
        agents_and_teams.delete_team(conn, id_)
    else:
        retire.delete_agent(conn, id_, now_ms=now_ms)
