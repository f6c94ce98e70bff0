import pytest

from shared.db.access import members, user_dms, user_roles, users
from shared.db.engine.connection import transaction
from tests.forks import race
from tests.support import NOW, column, make_chat

ENSURE = """
from shared.db.access import users
with transaction(conn):
    print(users.ensure(conn, "telegram", "5", name=sys.argv[2], now_ms=1).id)
"""


def ensure(conn, channel="telegram", sender_id="5", name="Ana", now_ms=NOW):
    with transaction(conn):
        return users.ensure(conn, channel, sender_id, name=name, now_ms=now_ms)


def test_a_user_is_created_once_and_found_by_the_platforms_id(conn):
    ana = ensure(conn)
    assert ensure(conn) == ana == users.find(conn, "telegram", "5") == users.get(conn, ana.id)
    assert ana.display_name == "telegram 5 (Ana)"
    assert ana._replace(name="Ana) is (").display_name == "telegram 5 (Ana] is [)"
    assert users.find(conn, "telegram", "6") is None
    assert users.get(conn, 99) is None


def test_the_same_id_on_two_platforms_is_two_people(conn):
    assert ensure(conn).id != ensure(conn, channel="discord").id


@pytest.mark.parametrize(
    ("one", "other"),
    [(("a", "b:c"), ("a:b", "c")), (("a", 'b","c'), ('a","b', "c")), (("a", ""), ("", "a"))],
)
def test_no_separator_makes_two_identities_one(conn, one, other):
    assert ensure(conn, *one).id != ensure(conn, *other).id


@pytest.mark.parametrize(("given", "kept"), [("Ana R.", "Ana R."), ("", "Ana")])
def test_a_new_name_replaces_the_old_one_and_an_empty_one_does_not(conn, given, kept):
    ensure(conn)
    assert ensure(conn, name=given).name == kept
    assert users.find(conn, "telegram", "5").name == kept


def test_a_user_without_a_name_is_displayed_by_the_id(conn):
    assert ensure(conn, name="").display_name == "telegram 5"


def test_a_deleted_user_is_a_stranger_again(conn):
    ana = ensure(conn)
    chat = make_chat(conn)
    with transaction(conn):
        user_roles.grant(conn, ana.id, "owner", None, by="operator", now_ms=NOW)
        members.put(conn, ana.id, "assistant", is_refused=False, by="operator", now_ms=NOW)
        user_dms.put(conn, ana.id, chat, NOW)
        assert users.delete(conn, ana.id)
        assert not users.delete(conn, ana.id)
    for table in ("users", "user_roles", "members", "user_dms"):
        assert column(conn, f"SELECT count(*) FROM {table}") == [0]
    assert column(conn, "SELECT count(*) FROM chats") == [1]


def test_eight_processes_at_once_create_one_user(conn, db):
    made = race(db, ENSURE, [[f"Ana {number}"] for number in range(8)])
    assert len(set(made)) == 1
    assert column(conn, "SELECT count(*) FROM users") == [1]
