import apsw
import pytest

from shared.db.access import members, users
from shared.db.engine.connection import rows, transaction
from shared.db.roster import agents
from tests.support import NOW, make_agent


@pytest.fixture
def people(conn):
    with transaction(conn):
        return [users.ensure(conn, "telegram", id_, name="", now_ms=NOW).id for id_ in ("5", "6")]


def put(conn, user, agent="assistant", is_refused=False, by="operator", now_ms=NOW):
    with transaction(conn):
        return members.put(conn, user, agent, is_refused=is_refused, by=by, now_ms=now_ms)


def stored(conn):
    return rows(conn, "SELECT user_id, agent, is_refused, added_by, created_at FROM members")


def test_a_member_is_added_once_and_added_by_stays(conn, people):
    assert put(conn, people[0])
    assert not put(conn, people[0], by="somebody else", now_ms=NOW + 1)
    assert stored(conn) == [(people[0], "assistant", 0, "operator", NOW)]


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_refusal_can_become_a_membership_and_back(conn, people, is_refused):
    assert put(conn, people[0], is_refused=not is_refused)
    assert put(conn, people[0], is_refused=is_refused, by="telegram 1", now_ms=NOW + 1)
    assert stored(conn) == [(people[0], "assistant", int(is_refused), "telegram 1", NOW + 1)]


def test_a_removed_user_is_neither_member_nor_refused(conn, people):
    put(conn, people[0], is_refused=True)
    put(conn, people[1])
    with transaction(conn):
        assert members.remove(conn, people[0], "assistant")
        assert not members.remove(conn, people[0], "assistant")
    assert [user for user, *_ in stored(conn)] == [people[1]]


def test_memberships_are_deleted_with_the_agent(conn, people):
    put(conn, people[0], make_agent(conn, "second"))
    with transaction(conn):
        agents.delete(conn, "second")
    assert stored(conn) == []


@pytest.mark.parametrize(("user", "agent"), [(1, "ghost"), (99, "assistant")])
def test_the_schema_refuses_an_unknown_user_or_agent(conn, people, user, agent):
    with pytest.raises(apsw.ConstraintError):
        put(conn, user, agent)
