"""The person of a line of a room, found for the lines of an earlier release whose messages are still here."""

import json

import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.engine.migrate import migrate

BEFORE = "0035"


@pytest.fixture
def old(before):
    """A file of the release before, with a session."""
    path, conn = before
    with transaction(conn):
        rows(conn, "INSERT INTO agents (id, name, created_at, updated_at) VALUES ('a', 'A', 1, 1)")
        rows(conn, "INSERT INTO sessions (id, session_id, agent, created_at, last_active) VALUES (1, 's', 'a', 1, 1)")
    return path, conn


def message(conn, name, channel, sender_id=None, **content):
    values = {"name": name, "channel": channel, "sender_id": sender_id, "content": json.dumps(content)}
    rows(
        conn,
        """
        INSERT INTO messages (message_id, id_prefix, channel, sender, sender_id, message, content, agent, session_id,
                              created_at, updated_at)
        VALUES (:name, 'm', :channel, '', :sender_id, '', :content, 'a', 1, 1, 1)
        """,
        values,
    )


def line(conn, number):
    rows(
        conn,
        f"INSERT INTO chat_messages (id, team_id, from_agent, message, created_at) VALUES ({number}, 't', 'a', '', 1)",
    )


def test_a_line_gets_the_person_whose_message_began_its_chain(old):
    path, conn = old
    with transaction(conn):
        for number in range(1, 6):
            line(conn, number)
        message(conn, "telegram_1", "telegram", "5")
        message(conn, "task_1", "telegram")
        for name in ("for_b", "for_c"):
            message(conn, name, "chatroom", team="t", line=1, origin="telegram_1")
        message(conn, "of_nobody", "chatroom", team="t", line=2, origin="task_1")
        message(conn, "of_a_pruned_one", "chatroom", team="t", line=3, origin="telegram_0")
        message(conn, "of_an_operator", "chatroom", team="t", line=4)
        message(conn, "of_a_person", "telegram", "6", line=5, origin="telegram_1")
    migrate(path)
    found = rows(conn, "SELECT id, channel, sender_id FROM chat_messages ORDER BY id")
    assert found == [(1, "telegram", "5"), *((number, None, None) for number in range(2, 6))]
