"""A database that follows a file of agents and teams."""

import pytest

from shared.core.errors import ConfigInvalid, WrongState
from shared.db.access import approvals
from shared.db.engine.connection import rows, transaction
from shared.db.roster import accounts, agents, teams
from shared.rest.admin import apply_file
from shared.roster import roster_file
from shared.roster.roster_file import Roster
from tests.approval_requests import ask_sender, event, person
from tests.support import NOW, dump, make_chat, make_session, put, wire

TEAM = {"leader": "b", "agents": ["a", "b"]}
FILE = Roster({"a": {"name": "A"}, "b": {"concurrency": 2, "folder": "there"}}, {"t": TEAM}, "b")


def apply(conn, file=FILE, *, delete=False, now_ms=NOW):
    with transaction(conn):
        return apply_file.apply(conn, file, is_deleting=delete, timezone="Europe/Rome", now_ms=now_ms)


def test_applying_a_file_twice_changes_nothing_the_second_time(conn):
    made = ["agents.a made", "agents.b made", "default b", "teams.t made"]
    assert apply(conn) == (made, ["agents.assistant"])
    found = agents.get(conn, "b")
    assert (found.concurrency, found.folder, found.timezone, found.is_default) == (2, "there", "Europe/Rome", True)
    before = dump(conn)
    assert apply(conn) == ([], ["agents.assistant"])
    assert dump(conn) == before
    assert roster_file.differences(FILE, roster_file.read_database(conn))[0].where == "agents.assistant"


def test_all_problems_are_told_at_once_and_nothing_is_changed(conn):
    before = dump(conn)
    file = Roster(
        {"a": {"provider": "oracle"}, "b": {"folder": "../b"}, "c": {}},
        {"t": {"agents": ["a", "c"]}, "c": {"agents": ["c"]}, "u": {"agents": ["zoe"]}},
        "a",
    )
    with pytest.raises(ConfigInvalid) as refused:
        apply(conn, file)
    for problem in (
        "agent 'a': unknown provider",
        "agent 'b': folder",
        "team 'c': an agent has",
        "team 'u': there is no",
    ):
        assert problem in str(refused.value)
    assert "team 't'" not in str(refused.value), "one of its agents was refused"
    assert dump(conn) == before


def test_only_named_settings_that_differ_are_changed(conn):
    apply(conn)
    rows(conn, "UPDATE agents SET name = 'Other', instructions = 'stays' WHERE id = 'a'")
    rows(conn, "UPDATE teams SET leader = 'a'")
    assert apply(conn).done == ["agents.a name", "teams.t leader"]
    assert (agents.get(conn, "a").name, agents.get(conn, "a").instructions) == ("A", "stays")
    assert teams.get(conn, "t").leader == "b"


def test_a_shared_folder_is_applied_if_the_file_allows_sharing(conn):
    apply(conn)
    agent = {"folder": "there", "share_folder": True}
    assert apply(conn, Roster({"b": {}, "a": agent}, {}, None)).done == ["agents.a folder"]
    with pytest.raises(ConfigInvalid, match="overlap"):
        apply(conn, Roster({"assistant": {"folder": "there"}}, {}, None))


def test_accounts_of_the_file_are_added_and_others_stay(conn):
    with transaction(conn):
        accounts.add(conn, "discord.night", now_ms=NOW)
    file = FILE._replace(accounts={"telegram.sales": {"agent": "a"}, "telegram": {"agent": None}})
    made = apply(conn, file, delete=False).done
    assert made[-2:] == ["accounts.telegram.sales made", "accounts.telegram made"]
    assert accounts.agent_of(conn, "telegram.sales") == "a"
    assert apply(conn, file).done == []
    moved = FILE._replace(accounts={"telegram.sales": {"agent": "b"}})
    assert apply(conn, moved).done == ["accounts.telegram.sales agent"]
    assert [each.name for each in accounts.every(conn)] == ["discord.night", "telegram", "telegram.sales"]


WRONG = {
    "an account": (Roster({"a": {}}, {}, None, {"pigeon.loft": {"agent": None}}), ConfigInvalid),
    "an account of nobody": (Roster({"a": {}}, {}, None, {"telegram.sales": {"agent": "zoe"}}), ConfigInvalid),
    "an agent": (Roster({"a": {}, "x": {"provider": "nobody"}}, {}, None), ConfigInvalid),
    "a team": (Roster({"a": {}}, {"t": {"agents": ["nobody"]}}, "a"), ConfigInvalid),
    "a deletion": (Roster({"a": {}}, {}, None), WrongState),
}


@pytest.mark.parametrize(("file", "error"), WRONG.values(), ids=WRONG)
def test_an_invalid_entry_applies_nothing(conn, file, error):
    put(conn)  # for the assistant, which therefore can't be deleted
    before = dump(conn)
    with pytest.raises(error):
        apply(conn, file, delete=True)
    assert dump(conn) == before


def test_deleting_removes_teams_before_agents_and_ends_their_approvals(conn):
    apply(conn)
    wire(conn, make_chat(conn), "assistant")
    make_session(conn)
    person(conn, "1", "owner")
    approval = ask_sender(conn, event()).approval
    rows(conn, "INSERT INTO teams VALUES ('olds', 'Olds', 'a', 0, 0)")
    gone = apply(conn, Roster({"b": {}}, {}, "b"), delete=True)
    assert gone == (["teams.t deleted", "teams.olds deleted", "agents.assistant deleted", "agents.a deleted"], [])
    assert approvals.get(conn, approval.approval_id).status == "expired"
    assert agents.find(conn, "assistant").retired_at == NOW
    assert agents.find(conn, "a") is None
