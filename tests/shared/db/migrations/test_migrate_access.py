"""From the queue's schema to that of who may talk to whom: what worked goes on as it was."""

import shutil
from importlib.resources import files
from pathlib import Path

import apsw
import pytest

from shared.conversation.access import people
from shared.conversation.access.rules import STRANGER
from shared.db.access import approvals
from shared.db.engine import meta
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.engine.migrate import migrate
from shared.db.queue import sessions
from shared.db.roster import agents, chats, destinations, wirings
from shared.roster import wirings as wiring
from tests.support import NOW, column, dump

SEED = """
    INSERT INTO meta (key, value) VALUES ('schema_version', '2'), ('epoch', 'epoch_12345678')
        ON CONFLICT DO NOTHING;
    INSERT INTO agents (id, name, folder, is_default, created_at, updated_at)
    VALUES ('assistant', 'Assistant', NULL, 1, 1, 1), ('coder', 'Coder', 'work/coder', 0, 1, 1);
    INSERT INTO chats (channel, platform_id, name, is_group, created_at, updated_at)
    VALUES ('telegram', '100', 'Ana', 0, 1, 1), ('discord', '200', 'Family', 1, 2, 2), ('api', 'x', NULL, 0, 3, 3);
    INSERT INTO wirings (chat_id, agent, created_at) VALUES (1, 'assistant', 4), (2, 'assistant', 5), (2, 'coder', 6);
    INSERT INTO sessions (session_id, agent, chat_id, created_at, last_active)
    VALUES ('session_1', 'assistant', 1, 1, 1);
    INSERT INTO approvals (approval_id, kind, agent, payload, expires_at, created_at, updated_at)
    VALUES ('approval_1', 'tool', 'assistant', '{"a": 1}', 9, 1, 1);
"""


@pytest.fixture(scope="module")
def migrated(tmp_path_factory):
    """A file of the release before, brought up to this one; tests work on copies."""
    path = tmp_path_factory.mktemp("migrated") / "p.db"
    before = open_connection(path)
    with transaction(before):
        for name in ("0001_first_light.sql", "0002_queue.sql"):
            rows(before, (files("shared.db") / "migrations" / name).read_text("utf-8"))
        rows(before, SEED)
    before.close()
    migrate(path)
    return path


@pytest.fixture
def conn(migrated, tmp_path):
    """A connection to such a file for one test."""
    after = open_connection(Path(shutil.copy(migrated, tmp_path / "p.db")))
    yield after
    after.close()


def test_existing_chats_stay_public_and_new_ones_admit_no_stranger(conn):
    assert int(meta.get(conn, "schema_version")) >= 3
    assert column(conn, "SELECT sender_policy FROM chats") == ["public"] * 3
    assert chats.get(conn, 2)[1:] == ("discord", "200", True, "active", "public", None, "Family", None, 2)
    with transaction(conn):
        assert chats.ensure(conn, "telegram", "7", is_group=False, now_ms=NOW).sender_policy == "strict"


def test_every_wiring_keeps_working_and_has_its_destination(conn):
    found = rows(conn, "SELECT agent, name, target_chat, created_at FROM destinations ORDER BY agent, name")
    assert found == [("assistant", "chat-1", 1, 4), ("assistant", "chat-2", 2, 5), ("coder", "chat-2", 2, 6)]
    assert [wiring.agent for wiring in wirings.find_chat(conn, "discord", "200").wirings] == ["assistant", "coder"]
    with transaction(conn):
        wiring.connect(conn, 2, "coder", now_ms=NOW)
    assert [each.name for each in destinations.of_agent(conn, "coder")] == ["family"]


def test_there_are_no_roles_or_members_yet(conn):
    assert people.standing(conn, "telegram", "5") == STRANGER
    assert people.approvers(conn, "assistant", channel="telegram") == []


def test_agents_sessions_and_approvals_are_kept(conn):
    assert [agent.id for agent in agents.every(conn)] == ["assistant", "coder"]
    assert agents.get(conn, "coder").folder == "work/coder"
    assert (agents.get(conn, "coder").turn_timeout_ms, agents.get(conn, "coder").batch_size) == (None, None)
    with transaction(conn):
        assert sessions.ensure(conn, "assistant", 1, None, now_ms=NOW) == 1
    assert approvals.get(conn, "approval_1").status == "pending"


def test_a_second_time_changes_nothing(conn):
    before = dump(conn)
    migrate(Path(conn.filename))
    assert dump(conn) == before


@pytest.mark.parametrize("folder", ["/etc", "..", "../x", "a/../../b", "a/..", ""])
def test_no_agents_folder_lies_anywhere_but_below_that_of_the_agents(conn, folder):
    insert = "INSERT INTO agents (id, name, folder, created_at, updated_at) VALUES ('b', 'B', ?, 1, 1)"
    for statement in (insert, "UPDATE agents SET folder = ? WHERE id = 'coder'"):
        with pytest.raises(apsw.ConstraintError, match="below the folder of the agents"), transaction(conn):
            rows(conn, statement, (folder,))
    assert column(conn, "SELECT folder FROM agents WHERE id = 'coder'") == ["work/coder"]


@pytest.mark.parametrize("folder", ["a", "a/b", "..a", "a..", "a/..b/c", None])
def test_an_agents_folder_may_be(conn, folder):
    rows(conn, "UPDATE agents SET folder = ? WHERE id = 'coder'", (folder,))
    assert column(conn, "SELECT folder FROM agents WHERE id = 'coder'") == [folder]


ILLEGAL = {
    "a policy that is none": "UPDATE chats SET sender_policy = 'open'",
    "a turn of no time": "UPDATE agents SET turn_timeout_ms = 99",
    "a batch of none": "UPDATE agents SET batch_size = 0",
    "a session that replays none": "UPDATE sessions SET replays = 99",
    "options that are no JSON": "UPDATE approvals SET options = '['",
}


@pytest.mark.parametrize("statement", ILLEGAL.values(), ids=ILLEGAL)
def test_the_schema_refuses(conn, statement):
    with pytest.raises(apsw.ConstraintError), transaction(conn):
        rows(conn, statement)
