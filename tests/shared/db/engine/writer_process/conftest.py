import pytest

from shared.db.engine.writer_process import WriterProcess


@pytest.fixture
def forked(db):
    """It is a fork of the test's process: ``forked`` comes before ``conn``, which opens the database."""
    process = WriterProcess()
    process.fork()
    return process
