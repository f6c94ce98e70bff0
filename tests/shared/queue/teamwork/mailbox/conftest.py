import pytest

from tests.support import make_agent


@pytest.fixture(autouse=True)
def crew(conn):
    for name in ("alice", "bob", "carol"):
        make_agent(conn, name)
