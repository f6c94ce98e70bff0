"""What people wrote is for the owner alone, under the widest umask, whichever process makes the file."""

import asyncio
import os
import re
import resource

import apsw
import pytest

from shared.core.errors import DatabaseRefused
from shared.db.engine import meta, owner_only, schema
from shared.db.engine.connection import open_connection, transaction
from shared.db.engine.group_commit import Writer
from shared.db.engine.migrate import migrate
from shared.roster.new_database import prepare_database
from shared.runtime.kick import Listener


@pytest.fixture(autouse=True)
def _widest_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def rights(folder):
    """The rights of everything in the folder, by its path there."""
    return {str(path.relative_to(folder)): path.stat().st_mode & 0o777 for path in sorted(folder.rglob("*"))}


def put(conn):
    with transaction(conn):
        meta.put(conn, "key", "value")


def test_a_new_database_its_log_and_its_folders_are_for_their_owner(tmp_path):
    database = tmp_path / "new" / "deep" / "p.db"
    prepare_database(database)
    conn = open_connection(database)
    put(conn)

    files = ("p.db", "p.db-gate", "p.db-shm", "p.db-wal")
    assert rights(tmp_path) == {"new": 0o700, "new/deep": 0o700, **{f"new/deep/{name}": 0o600 for name in files}}
    conn.close()


@pytest.mark.parametrize("target", ["p.db", "elsewhere.db"])
def test_a_database_that_a_function_makes_is_for_its_owner(tmp_path, target):
    """Also through a link to a file that is still to be made."""
    if target != "p.db":
        (tmp_path / "p.db").symlink_to(tmp_path / target)
    writer = Writer(tmp_path / "p.db")
    asyncio.run(writer.run(lambda conn: conn.execute("CREATE TABLE t (id)").fetchall()))

    assert rights(tmp_path)[target] == 0o600
    assert rights(tmp_path)[f"{target}-wal"] == 0o600
    writer.close()


def test_the_database_of_an_earlier_release_is_narrowed_at_the_next_start(tmp_path):
    earlier = apsw.Connection(str(tmp_path / "p.db"))
    earlier.execute("PRAGMA journal_mode = WAL").fetchall()
    earlier.execute(schema.migrations()[1])
    earlier.execute("INSERT INTO meta (key, value) VALUES ('schema_version', '1')")
    assert rights(tmp_path) == {"p.db": 0o644, "p.db-shm": 0o644, "p.db-wal": 0o644}

    (tmp_path / "p.db.files").mkdir(mode=0o755)

    migrate(tmp_path / "p.db")

    found = rights(tmp_path)
    assert found.pop("p.db.files") == 0o700
    assert {*found.values()} == {0o600}
    earlier.close()


def test_the_database_of_another_program_keeps_its_rights(tmp_path):
    theirs = apsw.Connection(str(tmp_path / "p.db"))
    theirs.execute("PRAGMA journal_mode = WAL; CREATE TABLE t (id)").fetchall()

    with pytest.raises(DatabaseRefused):
        migrate(tmp_path / "p.db")

    assert {*rights(tmp_path).values()} == {0o644}
    theirs.close()


def test_a_folder_that_is_there_keeps_its_rights(tmp_path):
    (tmp_path / "theirs").mkdir(mode=0o755)
    owner_only.make_folder(tmp_path / "theirs" / "ours")

    assert rights(tmp_path) == {"theirs": 0o755, "theirs/ours": 0o700}


def test_the_kick_sockets_are_for_their_owner(tmp_path):
    listener = Listener(tmp_path / "deep" / "run", "dispatch")

    assert rights(tmp_path) == {"deep": 0o700, "deep/run": 0o700, "deep/run/dispatch.sock": 0o600}
    listener.close()


def test_a_replaced_text_is_for_its_owner_although_the_half_of_an_earlier_one_is_not(tmp_path):
    (tmp_path / "p.tmp").write_text("half")
    owner_only.replace_text(tmp_path / "p", "whole")

    assert (tmp_path / "p").read_text() == "whole"
    assert rights(tmp_path) == {"p": 0o600}


def test_making_a_file_leaves_the_one_that_is_there(tmp_path):
    (tmp_path / "p.db").write_text("kept")
    owner_only.make_file(tmp_path / "p.db")

    assert (tmp_path / "p.db").read_text() == "kept"


def test_a_text_that_can_not_be_replaced_is_kept_and_named(tmp_path):
    owner_only.replace_text(tmp_path / "p", "old")
    size = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, size[1]))
    try:
        with pytest.raises(OSError, match=re.escape(str(tmp_path / "p"))):
            owner_only.replace_text(tmp_path / "p", "new")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, size)
    assert (tmp_path / "p").read_text() == "old"
