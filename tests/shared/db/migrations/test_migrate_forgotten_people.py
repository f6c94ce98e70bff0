"""The lines of an earlier release belong to people as far as their messages are still there."""

from shared.db.engine.connection import rows, transaction
from shared.db.engine.migrate import migrate
from tests.support import column

BEFORE = "0051"


def test_a_line_is_its_persons_where_its_message_is_still_there(before):
    path, conn = before
    with transaction(conn):
        rows(conn, "INSERT INTO agents (id, name, created_at, updated_at) VALUES ('a', 'A', 1, 1)")
        rows(conn, "INSERT INTO sessions (id, session_id, agent, created_at, last_active) VALUES (1, 's', 'a', 1, 1)")
        for name, sender in (("m1", "'5'"), ("m2", "NULL")):
            rows(
                conn,
                "INSERT INTO messages (message_id, id_prefix, channel, sender, sender_id, message, agent, session_id,"
                f" created_at, updated_at) VALUES ('{name}', 'm', 'telegram', 'Ana', {sender}, 'x', 'a', 1, 1, 1)",
            )
        lines = [("user", "m1"), ("assistant", "m1"), ("user", "m2"), ("user", "pruned")]
        for role, name in lines:
            rows(
                conn,
                "INSERT INTO agent_messages (agent_id, role, channel, sender, message_id, content, created_at)"
                f" VALUES ('a', '{role}', 'telegram', 'x', '{name}', 'x', 1)",
            )
    migrate(path)
    assert column(conn, "SELECT sender_id FROM agent_messages ORDER BY id") == ["5", "5", None, None]
