"""An upgrade and the way back beside a replica: the bucket restores to what the database holds, before and after."""

import os
import subprocess
import sys

import pytest

from emulator.upgrades.rollback import roll_back
from shared.db.engine import copies, schema
from shared.db.engine.connection import open_connection, transaction
from shared.db.engine.migrate import migrate
from shared.db.queue import events
from shared.roster.new_database import prepare_database
from tests.infra.processes import ROOT, Process
from tests.shared.db.engine.earlier_databases import make_first, read
from tests.support import NOW, put

pytestmark = [pytest.mark.e2e, pytest.mark.long]

RELEASED = 28  # the schema of 0.1.0


@pytest.fixture
def environment(tmp_path):
    return {
        "PATH": os.environ["PATH"],
        "POSTROOM_DB": str(tmp_path / "p.db"),
        "POSTROOM_REPLICA_URL": f"file://{tmp_path}/replica",
        "POSTROOM_LITESTREAM_SOCKET": str(tmp_path / "litestream.sock"),
        "POSTROOM_REPLICA_LEASE": "5s",
    }


def restore(environment, *options):
    """The log line of ``infra.restore``."""
    done = subprocess.run(
        [sys.executable, "-m", "infra.restore", *options],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def replicated(environment, database, work):
    """Let Litestream run meanwhile, and end it in good order, as a host does: the functions first."""
    supervisor = Process(sys.executable, "-m", "infra.replicate", environment=environment)
    try:
        supervisor.wait_for("replicate.begun")
        work(database)
        supervisor.signal(15)
        assert supervisor.end() == 0
    finally:
        supervisor.close()


def receive(database):
    conn = open_connection(database)
    put(conn, f"message {schema.inspect(conn, database)}")
    with transaction(conn):
        events.append(conn, "message_queued", now_ms=NOW)
    conn.close()


def restored(environment, tmp_path, name):
    """All rows of a restore from the bucket alone."""
    restore(environment, "--output", str(tmp_path / name))
    return read(tmp_path / name)


def without(tables):
    return {name: found for name, found in tables.items() if not name.startswith("_litestream")}


def test_the_bucket_has_the_database_of_the_later_and_then_of_the_earlier_release(environment, tmp_path):
    database = tmp_path / "p.db"
    make_first(database).close()
    migrate(database, to=RELEASED, keep_copy=False)

    restore(environment)
    replicated(environment, database, lambda path: (prepare_database(path), receive(path)))  # the start of a function
    assert list(copies.find_all(database)) == [RELEASED]
    later = read(database)
    assert without(restored(environment, tmp_path, "later.db")) == without(later)

    roll_back(database, None)
    earlier = read(database)
    assert max(row[0] for row in earlier["messages"]) == max(row[0] for row in later["messages"])
    assert '"step":"again"' in restore(environment)  # a full copy under a new prefix: the file is the newest state
    replicated(environment, database, lambda _: None)
    assert without(restored(environment, tmp_path, "earlier.db")) == without(read(database))
    conn = open_connection(tmp_path / "earlier.db")
    assert schema.inspect(conn, tmp_path / "earlier.db") == RELEASED
    conn.close()
