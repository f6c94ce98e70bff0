import pytest

from shared.runtime.kick import Listener
from tests.serving import environment, serving, until
from tests.support import make_owner

__all__ = ["environment", "serving", "until"]


@pytest.fixture
def all_run(environment, conn):
    """Both functions that take kicks listen, and there is an owner."""
    make_owner(conn)
    listening = [Listener(environment, name) for name in ("dispatch", "deliver")]
    yield
    for each in listening:
        each.close()
