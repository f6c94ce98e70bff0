"""The operator's list of tool servers, and who has which."""

import pytest

from shared.core.errors import ConfigInvalid, NotFound, WrongState
from shared.db.engine.connection import transaction
from shared.db.roster import tool_servers as server_rows
from shared.roster import tool_servers
from tests.support import NOW, make_agent

COMMAND = ["/opt/weather", "--metric"]
TOOLS = {"look": "The weather of a town."}


def save(conn, name="weather", command=COMMAND, tools=TOOLS):
    with transaction(conn):
        return tool_servers.save(conn, name, command, tools, now_ms=NOW)


@pytest.fixture
def coder(conn):
    make_agent(conn, "coder", provider="claude")
    save(conn)
    with transaction(conn):
        tool_servers.give(conn, "coder", "weather", now_ms=NOW)
    return "coder"


def of(conn, agent):
    return [each.name for each in server_rows.of_agent(conn, agent)]


def test_a_server_that_changes_is_taken_from_its_agents_and_one_that_stays_is_not(conn, coder):
    assert save(conn) == ()
    assert of(conn, coder) == ["weather"]
    assert save(conn, tools={**TOOLS, "change": "Changes it."}) == ("coder",)
    assert of(conn, coder) == []
    with transaction(conn):
        tool_servers.give(conn, coder, "weather", now_ms=NOW)
    assert save(conn, command=["/opt/other"]) == ("coder",)


def test_a_server_is_given_once_and_taken_once(conn, coder):
    with transaction(conn):
        tool_servers.give(conn, coder, "weather", now_ms=NOW)
        tool_servers.take(conn, coder, "weather")
    assert of(conn, coder) == []
    with pytest.raises(NotFound, match="agent 'coder' has no tool server 'weather'"):
        tool_servers.take(conn, coder, "weather")


def test_a_server_leaves_the_list_and_its_agents_together(conn, coder):
    with transaction(conn):
        assert server_rows.delete(conn, "weather")
        assert not server_rows.delete(conn, "weather")
    assert of(conn, coder) == []


def test_an_agent_whose_provider_starts_none_is_refused(conn):
    save(conn)
    with pytest.raises(WrongState, match="because its provider 'echo' starts none"):
        tool_servers.give(conn, "assistant", "weather", now_ms=NOW)
    with pytest.raises(NotFound, match="no tool server 'clock' on the operator's list; it has: weather"):
        tool_servers.give(conn, "assistant", "clock", now_ms=NOW)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "postroom"},
        {"name": "a b"},
        {"name": "../x"},
        {"name": ""},
        {"command": []},
        {"command": [""]},
        {"command": ["x"] * 51},
        {"tools": {}},
        {"tools": {"a b": ""}},
        {"tools": {"look": "x" * 1001}},
        {"tools": {f"t{number}": "" for number in range(65)}},
    ],
)
def test_what_no_program_could_use_is_refused(conn, wrong):
    with pytest.raises(ConfigInvalid):
        save(conn, **wrong)
    assert server_rows.every(conn) == []
