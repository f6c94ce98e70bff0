"""Columns for albums and files, and drafts, added to a file of an earlier release."""

import apsw
import pytest

from shared.db.engine.connection import rows, transaction
from shared.db.engine.migrate import migrate
from shared.db.queue import responses
from shared.db.roster import agents
from tests.support import NOW, answer, column

BEFORE = "0024"


@pytest.fixture
def old(before):
    """A file of the release before, with an open response."""
    path, conn = before
    with transaction(conn):
        rows(
            conn, "INSERT INTO agents (id, name, provider, created_at, updated_at) VALUES ('old', 'Old', 'echo', 1, 1)"
        )
    answer(conn, files='["/files/a.txt"]')
    return path, conn


def test_an_open_response_of_an_earlier_release_is_sent(old):
    path, conn = old
    migrate(path)
    with transaction(conn):
        claimed = responses.claim(conn, 1, token="t", now_ms=NOW, lease_ms=1000)
        assert (claimed.files, claimed.unsent_files) == (("/files/a.txt",), ())
        responses.record_left_out_files(conn, claimed, [[0, "gone"]], lease_until=NOW + 1000)
        responses.record_part(conn, claimed, ("m1",), ("m2", "m3"), lease_until=NOW + 1000)
        responses.ack(conn, claimed, ("m1", "m4"), ("m2", "m3", "m5"), now_ms=NOW)
    found = rows(conn, "SELECT status, platform_message_id, also, unsent_files FROM responses")
    assert found == [("acked", "m1", '["m2","m3","m5"]', '[[0, "gone"]]')]
    assert column(conn, "PRAGMA integrity_check") == ["ok"]


def test_an_agent_of_an_earlier_release_has_no_drafts(old):
    path, conn = old
    migrate(path)
    assert [agent.drafts for agent in agents.every(conn) if agent.id == "old"] == [False]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE responses SET also = '{}'",
        "UPDATE responses SET unsent_files = 'gone'",
        "UPDATE agents SET drafts = 2",
        "INSERT INTO drafts (id, turn, agent, session_id, channel, platform_id, created_at)"
        " VALUES (0, 't', 'a', 1, 'telegram', '1', 1)",
    ],
)
def test_the_new_columns_hold_nothing_else(old, statement):
    path, conn = old
    migrate(path)
    with pytest.raises((apsw.ConstraintError, apsw.SQLError)), transaction(conn):
        rows(conn, statement)
