import pytest

from shared.db.engine.connection import transaction
from shared.db.roster import sticky_threads, wirings
from tests.support import NOW, column, make_agent, make_chat, wire


@pytest.fixture
def two(conn):
    chat = make_chat(conn, is_group=True)
    wire(conn, chat)
    wire(conn, chat, make_agent(conn, "second"))
    return [wiring.id for wiring in wirings.of_chat(conn, chat)]


def test_a_mention_sticks_in_its_thread_and_nowhere_else(conn, two):
    with transaction(conn):
        for now_ms in (NOW, NOW + 1):
            sticky_threads.add(conn, two[0], "7", now_ms)
    assert sticky_threads.has(conn, two[0], "7")
    assert not sticky_threads.has(conn, two[0], "8")
    assert not sticky_threads.has(conn, two[1], "7")
    assert column(conn, "SELECT created_at FROM sticky_threads") == [NOW]


def test_sticky_threads_are_deleted_with_the_wiring(conn, two):
    with transaction(conn):
        sticky_threads.add(conn, two[0], "7", NOW)
        assert wirings.delete(conn, 1, "assistant")
    assert column(conn, "SELECT count(*) FROM sticky_threads") == [0]
