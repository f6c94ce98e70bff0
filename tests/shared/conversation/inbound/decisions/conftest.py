import pytest

from tests.approval_requests import person
from tests.support import make_chat, wire


@pytest.fixture
def place(conn):
    """A group with an agent."""
    chat = make_chat(conn, is_group=True)
    wire(conn, chat)
    return chat


@pytest.fixture
def owner(conn):
    return person(conn, "1", "owner")
