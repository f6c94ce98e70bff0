"""``emulator upgrade`` and ``emulator rollback``: what a person reads and a program gets."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from emulator.base.state import FolderLock, StateFolder
from emulator.cli.app import app
from shared.db.engine import copies, meta, schema
from shared.db.engine.connection import open_connection, transaction
from shared.db.engine.migrate import migrate
from tests.shared.db.engine.earlier_databases import make_first, read
from tests.support import put

NEWEST = max(schema.migrations())
BEFORE = NEWEST - 4


@pytest.fixture
def state(tmp_path):
    """A state folder whose database is some migrations old."""
    folder = StateFolder(tmp_path / "state")
    folder.prepare()
    make_first(folder.database).close()
    migrate(folder.database, to=BEFORE, keep_copy=False)
    return folder


def emulator(*words, state=None, env=None):
    at = [] if state is None else ["--state", str(state.path)]
    return CliRunner().invoke(app, [*words, *at], env=env)


def test_a_dry_run_names_each_migration_with_its_sentence_and_changes_nothing(state):
    before = read(state.database)
    done = emulator("upgrade", "--dry-run", state=state)
    assert done.exit_code == 0, done.output
    assert f"has schema {BEFORE}, and this release {NEWEST}. Nothing was changed." in done.output
    for version in range(BEFORE + 1, NEWEST + 1):
        assert schema.sentence(version) in done.output
    assert "measured on a copy just now" in done.output
    assert "no table has other rows than before" in done.output
    assert read(state.database) == before


def test_an_upgrade_and_the_way_back(state):
    before = read(state.database)
    done = emulator("upgrade", "--json", state=state)
    facts = json.loads(done.output)
    assert (facts["found"], facts["schema"], facts["rehearsal"]) == (BEFORE, NEWEST, False)
    assert [each["schema"] for each in facts["migrations"]] == list(range(BEFORE + 1, NEWEST + 1))
    assert facts["copy"] == str(copies.place(state.database, BEFORE))
    assert "there is nothing to do" in emulator("upgrade", state=state).output
    conn = open_connection(state.database)
    put(conn, "since then")
    conn.close()
    back = emulator("rollback", "--yes", state=state)
    assert back.exit_code == 0, back.output
    assert f"has schema {BEFORE} again, with all that came in since the upgrade to {NEWEST}." in back.output
    after = read(state.database)
    again = emulator("rollback", "--yes", "--to", str(BEFORE), state=state)
    assert (again.exit_code, f"has schema {BEFORE} already. Nothing was changed." in again.output) == (0, True)
    assert read(state.database) == after
    (new,) = set(after["messages"]) - set(before["messages"])
    assert "since then" in new
    assert set(before["messages"]) <= set(after["messages"])


def test_an_upgrade_that_goes_on_names_the_copy_from_its_beginning(state):
    """As after a kill: it is some migrations further, and the copy is of before."""
    conn = open_connection(state.database)
    copies.make(conn, state.database, copies.place(state.database, BEFORE - 1))
    with transaction(conn):
        meta.put(conn, "upgrade_began_with", str(BEFORE - 1))
    conn.close()
    facts = json.loads(emulator("upgrade", "--json", state=state).output)
    assert facts["copy"] == str(copies.place(state.database, BEFORE - 1))
    assert Path(facts["copy"]).exists()


def test_nothing_is_done_while_the_emulator_runs(state):
    lock = FolderLock(state)
    lock.take()
    try:
        for words in (["upgrade"], ["rollback", "--yes"]):
            done = emulator(*words, state=state)
            assert done.exit_code == 73
            assert "stop the emulator first" in done.output
        assert emulator("upgrade", "--dry-run", state=state).exit_code == 0  # that one disturbs nobody
    finally:
        lock.release()


def test_the_database_of_a_deployment_is_named_by_its_setting(state, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = {"POSTROOM_DB": str(state.database)}
    assert json.loads(emulator("upgrade", "--json", env=env).output)["found"] == BEFORE
    assert json.loads(emulator("rollback", "--yes", "--json", env=env).output)["schema"] == BEFORE


def test_another_user_than_the_owner_changes_nothing(state, monkeypatch):
    """As root, for whom all works: the functions could not open the files that root made."""
    owner = os.getuid() + 1
    if os.getuid() != 0:
        monkeypatch.setattr(os, "getuid", lambda: owner)
    else:
        os.chown(state.database, owner, -1)
    for words in (["upgrade"], ["upgrade", "--dry-run"], ["rollback", "--yes"]):
        done = emulator(*words, state=state)
        assert (done.exit_code, "run it as that user, such as with `sudo -u" in done.output) == (77, True)
    assert sorted(copies.find_all(state.database)) == []


def test_a_rollback_is_not_done_unasked(state):
    done = emulator("rollback", state=state)
    assert (done.exit_code, "confirm with --yes" in done.output) == (64, True)


@pytest.mark.parametrize("words", [["upgrade"], ["upgrade", "--dry-run"], ["rollback", "--yes"]])
def test_failures_are_a_sentence(state, tmp_path, words):
    nothing = emulator(*words, state=StateFolder(tmp_path / "none"))
    assert (nothing.exit_code, "there is no database" in nothing.output) == (66, True)
    conn = open_connection(state.database)
    with transaction(conn):
        meta.put(conn, "schema_version", str(NEWEST + 1))
    conn.close()
    later = emulator(*words, state=state)
    assert later.exit_code == 65
    assert f"has schema {NEWEST + 1}, this release knows up to {NEWEST}" in later.output
