"""A later release that is started beside a running ingest migrates the database under it."""

import signal

import pytest

from shared.db.engine import schema
from shared.db.engine.connection import rows, transaction
from tests.functions.ingest.kit import post, telegram

LATER = max(schema.migrations()) + 1
# As migration 48 did: the statement of an earlier release that makes a session names an index that is no more.
CHANGE = """
    DROP INDEX sessions_one_active;
    CREATE UNIQUE INDEX sessions_one_active ON sessions (agent, chat_id, ifnull(thread_id, '')) WHERE status = 'active';
"""


@pytest.fixture
def ended():
    """The signals that would have ended this process."""
    seen = []
    before = signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    yield seen
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("version", [LATER, LATER - 1])
def test_the_platform_sends_again_and_ingest_ends_where_that_is_why(serving, conn, ended, version):
    """Its supervisor starts what is installed. With its own release's schema it stays: nothing better would start."""
    with transaction(conn):
        rows(conn, CHANGE)
        conn.execute("UPDATE meta SET value = ? WHERE key = 'schema_version'", (str(version),))
    (reply,) = post(serving, telegram())
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "5")
    assert bool(ended) == (version == LATER)
    assert ("a later release has changed the database" in reply.json()["error"]) == (version == LATER)


def test_nothing_else_ends_it(serving, conn, ended):
    with transaction(conn):
        conn.execute("UPDATE meta SET value = ? WHERE key = 'schema_version'", (str(LATER),))
    (reply,) = post(serving, telegram())
    assert (reply.status_code, ended) == (200, [])
