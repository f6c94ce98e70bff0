from shared.db.access import user_dms, users
from shared.db.engine.connection import transaction
from tests.support import NOW, column, make_chat


def test_a_direct_chat_is_stored_once_and_written_only_when_it_changes(conn):
    one, other = make_chat(conn, "1"), make_chat(conn, "2")
    with transaction(conn):
        ana = users.ensure(conn, "telegram", "5", name="Ana", now_ms=NOW).id
        assert user_dms.get(conn, ana) is None
        assert user_dms.put(conn, ana, one, NOW)
        assert not user_dms.put(conn, ana, one, NOW + 1)
        assert column(conn, "SELECT resolved_at FROM user_dms") == [NOW]
        assert user_dms.put(conn, ana, other, NOW + 2)
    assert column(conn, "SELECT resolved_at FROM user_dms") == [NOW + 2]
    assert user_dms.get(conn, ana) == other
