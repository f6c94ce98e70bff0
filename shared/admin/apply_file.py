"""Makes the database follow a file of agents and teams: all that it names, or, if anything of it can't be, nothing.

What the file does not name stays as it is, and who is only in the database stays too, unless they are to go. The caller
owns the transaction, and undoes it when this fails.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import apsw

from shared.admin import retire
from shared.roster import agents_and_teams, roster_file
from shared.roster.roster_file import Roster, RosterDifference


class AppliedFile(NamedTuple):
    """What was done, in its order, such as ``agents.coder model``; and who is only in the database, and stayed."""

    done: list[str]
    kept: list[str]


def apply(conn: apsw.Connection, file: Roster, *, is_deleting: bool, timezone: str, now_ms: int) -> AppliedFile:
    """Make or change what the file names, in an order in which nothing names what is not there yet, or any more.

    Args:
        is_deleting: whoever is only in the database is let go.
        timezone: of new agents that name none.

    Raises:
        ConfigInvalid: something can't be so; says what, and why.
        WrongState: somebody can't go; says why.
    """
    found = roster_file.differences(file, roster_file.read_database(conn))
    done = []
    for id_, what, change in _changes("agents", file.agents, found):
        agents_and_teams.save_agent(conn, id_, change, timezone=timezone, now_ms=now_ms)
        done.append(what)
    for each in found:
        if each.where == "default":
            agents_and_teams.save_agent(conn, each.file, {"default": True}, now_ms=now_ms)
            done.append(f"default {each.file}")
    for id_, what, change in _changes("teams", file.teams, found):
        agents_and_teams.save_team(conn, id_, change, now_ms=now_ms)
        done.append(what)
    gone = [each.table for each in reversed(found) if each.file is None and not each.field]  # teams before their agents
    if not is_deleting:
        return AppliedFile(done, gone[::-1])
    for table in gone:
        _let_go(conn, table, now_ms=now_ms)
        done.append(f"{table} deleted")
    return AppliedFile(done, [])


def _changes(
    kind: str, file: Mapping[str, Mapping[str, Any]], found: Sequence[RosterDifference]
) -> list[tuple[str, str, dict[str, Any]]]:
    """Of each agent or team that differs: its id, what is done in words, and what it is told to be."""
    differing: dict[str, list[str]] = {}
    for each in found:
        if each.table.startswith(f"{kind}.") and (each.field or each.database is None):
            differing.setdefault(each.table.removeprefix(f"{kind}."), []).append(each.field)
    return [
        (id_, f"{kind}.{id_} {', '.join(filter(None, fields)) or 'made'}", _told(file[id_], fields))
        for id_, fields in differing.items()
    ]


def _told(said: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """What differs; all of it, of one that is new. A folder comes with whether it may be another's too."""
    wanted = {*fields, "share_folder"} if "folder" in fields else {*fields}
    return {name: value for name, value in said.items() if fields == [""] or name in wanted}


def _let_go(conn: apsw.Connection, table: str, *, now_ms: int) -> None:
    kind, _, id_ = table.partition(".")
    if kind == "teams":
        agents_and_teams.delete_team(conn, id_)
    else:
        retire.delete_agent(conn, id_, now_ms=now_ms)
