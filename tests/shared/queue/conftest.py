import pytest

from tests.support import make_session


@pytest.fixture
def session(conn):
    """The session in which ``put`` writes."""
    return make_session(conn)[1]
