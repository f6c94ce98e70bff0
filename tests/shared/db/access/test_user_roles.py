import apsw
import pytest

from shared.db.access import user_roles, users
from shared.db.engine.connection import rows, transaction
from tests.support import NOW, column


@pytest.fixture
def ana(conn):
    with transaction(conn):
        return users.ensure(conn, "telegram", "5", name="Ana", now_ms=NOW).id


def grant(conn, user, role, agent=None, by="operator", now_ms=NOW):
    with transaction(conn):
        return user_roles.grant(conn, user, role, agent, by=by, now_ms=now_ms)


ROLES = [("owner", None), ("admin", None), ("admin", "assistant")]


@pytest.mark.parametrize(("role", "agent"), ROLES)
def test_a_role_is_granted_once_and_its_first_grant_stays(conn, ana, role, agent):
    assert grant(conn, ana, role, agent)
    assert not grant(conn, ana, role, agent, by="somebody else", now_ms=NOW + 1)
    assert rows(conn, "SELECT user_id, role, agent, granted_by, created_at FROM user_roles") == [
        (ana, role, agent, "operator", NOW)
    ]


def roles(conn):
    return rows(conn, "SELECT role, agent FROM user_roles ORDER BY id")


def test_roles_of_everything_and_of_an_agent_stand_beside_each_other(conn, ana):
    assert all(grant(conn, ana, *each) for each in ROLES)
    assert roles(conn) == ROLES


@pytest.mark.parametrize("taken", ROLES)
def test_exactly_that_role_is_revoked(conn, ana, taken):
    for each in ROLES:
        grant(conn, ana, *each)
    with transaction(conn):
        assert user_roles.revoke(conn, ana, *taken, may_be_last_owner=True)
        assert not user_roles.revoke(conn, ana, *taken, may_be_last_owner=True)
    assert roles(conn) == [role for role in ROLES if role != taken]


ILLEGAL = {
    "an owner of one agent": ("owner", "assistant"),
    "a role that is none": ("king", None),
    "an agent that does not exist": ("admin", "ghost"),
}


@pytest.mark.parametrize(("role", "agent"), ILLEGAL.values(), ids=ILLEGAL)
def test_the_schema_refuses(conn, ana, role, agent):
    with pytest.raises(apsw.ConstraintError):
        grant(conn, ana, role, agent)
    assert column(conn, "SELECT count(*) FROM user_roles") == [0]


def test_the_schema_refuses_the_same_role_of_everything_twice(conn, ana):
    """NULLs are not equal to each other; the index sees to it that these are."""
    insert = "INSERT INTO user_roles (user_id, role, granted_by, created_at) VALUES (?, 'owner', 'x', 1)"
    with transaction(conn):
        rows(conn, insert, (ana,))
        with pytest.raises(apsw.ConstraintError):
            rows(conn, insert, (ana,))


def test_the_last_owner_stays_unless_that_is_forced(conn, ana):
    grant(conn, ana, "owner", None)
    with transaction(conn):
        assert not user_roles.revoke(conn, ana, "owner", None)
        assert user_roles.owners(conn) == [ana]
        assert user_roles.revoke(conn, ana, "owner", None, may_be_last_owner=True)
    assert user_roles.owners(conn) == []
