"""Sessions of an earlier release count as with strangers, but for the direct chats of people who were let in."""

import re

from shared.db.engine import schema
from shared.db.engine.connection import rows, transaction
from shared.db.engine.migrate import migrate
from tests.support import plan

BEFORE = "0043"


def test_only_direct_chats_of_known_people_are_without_strangers(before):
    path, conn = before
    with transaction(conn):
        for agent in ("a", "b"):
            rows(conn, f"INSERT INTO agents (id, name, created_at, updated_at) VALUES ('{agent}', 'A', 1, 1)")
        for number in (1, 2, 3, 4):
            values = f"({number}, 'telegram', 'p{number}', '', 1, 1)"
            rows(conn, f"INSERT INTO users (id, channel, sender_id, name, created_at, updated_at) VALUES {values}")
        rows(
            conn,
            "INSERT INTO user_roles (user_id, role, agent, granted_by, created_at) VALUES (1, 'owner', NULL, '', 1)",
        )
        members = "(2, 'a', 0, '', 1), (3, 'a', 1, '', 1)"
        rows(conn, f"INSERT INTO members (user_id, agent, is_refused, added_by, created_at) VALUES {members}")
        chats = {
            1: ("telegram", "p1", 0),
            2: ("telegram.sales", "p2", 0),
            3: ("telegram", "p3", 0),
            4: ("telegram", "p4", 0),
            5: ("telegram", "-5", 1),
            6: ("discord", "p1", 0),
        }
        for number, (channel, platform_id, is_group) in chats.items():
            rows(
                conn,
                "INSERT INTO chats (id, channel, platform_id, is_group, created_at, updated_at) "
                f"VALUES ({number}, '{channel}', '{platform_id}', {is_group}, 1, 1)",
            )
        sessions = [(number, "a", number) for number in chats] + [(7, "b", 2), (8, "a", "NULL")]
        for number, agent, chat in sessions:
            rows(
                conn,
                "INSERT INTO sessions (id, session_id, agent, chat_id, created_at, last_active) "
                f"VALUES ({number}, 's{number}', '{agent}', {chat}, {number}, 9)",
            )
    migrate(path)
    _, known, *_ = re.findall(r"UPDATE sessions[^;]+", schema.migrations()[43])
    assert "SEARCH u USING COVERING INDEX" in " ".join(plan(conn, known)), "not each person for each session"
    found = dict(rows(conn, "SELECT id, strangers_at FROM sessions ORDER BY id"))
    assert found == {1: None, 2: None, 3: 3, 4: 4, 5: 5, 6: 6, 7: 7, 8: 8}
    assert rows(conn, "SELECT DISTINCT memory FROM agents") == [("known",)]
