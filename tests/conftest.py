import shutil

import hypothesis
import pytest

from shared.db.engine import connection
from shared.db.engine.connection import open_connection
from shared.roster.new_database import prepare_database

# A slow example on a busy machine is not a failure.
hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def fresh_database(tmp_path_factory):
    """A migrated file, made once; tests work on copies."""
    path = tmp_path_factory.mktemp("fresh") / "fresh.db"
    prepare_database(path)
    return path


@pytest.fixture
def db(fresh_database, tmp_path):
    """The path of a migrated database for one test."""
    path = tmp_path / "p.db"
    shutil.copy(fresh_database, path)
    yield path
    close_gate(path)


def close_gate(path):
    """A process keeps the gate of its database open; thousands of tests would run out of file descriptors."""
    gate = connection._gates.pop(str(path), None)
    if gate is not None:
        with gate._thread:
            gate.close()


@pytest.fixture
def conn(db):
    """A connection to ``db`` that can write."""
    connection = open_connection(db)
    yield connection
    connection.close()


@pytest.fixture
def other(db):
    """A second connection to ``db``."""
    connection = open_connection(db)
    yield connection
    connection.close()
