import pytest

from shared.core.errors import ConfigInvalid, WrongState
from shared.db.engine.connection import transaction
from shared.db.roster import agents, teams
from shared.db.roster.teams import Team
from tests.support import NOW, column, make_agent, row


@pytest.fixture
def crew(conn):
    return [make_agent(conn, name) for name in ("coder", "reviewer", "writer")]


def save(conn, *agents_, id_="dev", leader=None, name="Development", now_ms=NOW):
    with transaction(conn):
        teams.save(conn, Team(id_, name, leader or agents_[0], agents_), now_ms=now_ms)


def test_a_team_keeps_its_members_in_the_given_order(conn, crew):
    assert teams.get(conn, "dev") is None
    save(conn, "writer", "coder", "reviewer")
    assert teams.get(conn, "dev") == Team("dev", "Development", "writer", ("writer", "coder", "reviewer"))


def test_saving_again_replaces_everything_but_created_at(conn, crew):
    save(conn, "coder", "reviewer")
    save(conn, "writer", name="Letters", now_ms=NOW + 5)
    assert teams.get(conn, "dev") == Team("dev", "Letters", "writer", ("writer",))
    assert column(conn, "SELECT created_at FROM teams") == [NOW]
    assert column(conn, "SELECT updated_at FROM teams") == [NOW + 5]


def test_every_team_by_id(conn, crew):
    save(conn, "coder", id_="b")
    save(conn, "coder", id_="a")
    assert [team.id for team in teams.every(conn)] == ["a", "b"]


WRONG = {
    "a member that is no agent": (("coder", "ghost"), "coder", "dev", "there is no agent ghost"),
    "a leader that is no member": (("coder",), "writer", "dev", "its leader 'writer' is not among"),
    "a member that comes twice": (("coder", "writer", "coder"), "coder", "dev", "an agent is named twice"),
    "an agent called like a person": (("coder", "user"), "coder", "dev", "there is no agent user"),
    "no members": ((), "coder", "dev", "its leader 'coder' is not among"),
    "an id with a path in it": (("coder",), "coder", "../dev", "a team's id is 1 to 64"),
    "an empty id": (("coder",), "coder", "", "a team's id is 1 to 64"),
    "an id with a line's end": (("coder",), "coder", "dev\n", "a team's id is 1 to 64"),
}


@pytest.mark.parametrize(("members", "leader", "id_", "said"), WRONG.values(), ids=WRONG)
def test_an_invalid_team_is_refused_with_a_sentence_and_not_stored(conn, crew, members, leader, id_, said):
    with pytest.raises(ConfigInvalid, match=said):
        save(conn, *members, leader=leader, id_=id_)
    assert teams.every(conn) == []


def test_a_team_is_deleted_once_with_its_memberships(conn, crew):
    save(conn, "coder", "writer")
    with transaction(conn):
        assert teams.delete(conn, "dev")
        assert not teams.delete(conn, "dev")
    assert column(conn, "SELECT agent FROM team_members") == []


def test_a_team_keeps_its_leader_when_a_member_is_deleted(conn, crew):
    save(conn, "coder", "writer")
    with transaction(conn):
        agents.delete(conn, "writer")
    assert teams.get(conn, "dev").agents == ("coder",)
    with pytest.raises(WrongState, match="leads the team 'dev'"), transaction(conn):
        agents.delete(conn, "coder")
    assert row(conn, "agents", "coder")["id"] == "coder"


@pytest.mark.parametrize("name", ["operator", "user"])
def test_an_agent_can_not_have_an_id_reserved_for_people(conn, name):
    with pytest.raises(ConfigInvalid, match="take another id"):
        make_agent(conn, name)
