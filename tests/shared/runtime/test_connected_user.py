"""The kernel tells which user has the other end of a connection on this machine."""

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from shared.runtime import connected_user
from shared.runtime.connected_user import End, own_user_question, user_of
from tests.forks import FORKS, LIMIT_S
from tests.other_user import NOBODY, connect_as_nobody, needs_root

LISTENERS = {"127.0.0.1": socket.AF_INET, "::1": socket.AF_INET6, "::": socket.AF_INET6}
Connected = tuple[socket.socket, socket.socket]


@pytest.fixture(params=[("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.1")], ids=str)
def connected(request: pytest.FixtureRequest) -> Iterator[Connected]:
    """The end of a client of ours, and the server's; the last listens for both families on one socket."""
    listens, called = request.param
    with ExitStack() as stack:
        dual = {"family": LISTENERS[listens], "dualstack_ipv6": listens == "::"}
        server = stack.enter_context(socket.create_server((listens, 0), **dual))
        client = stack.enter_context(socket.create_connection((called, server.getsockname()[1])))
        yield client, stack.enter_context(server.accept()[0])


def test_a_connection_of_this_user_is_known(connected: Connected) -> None:
    _, accepted = connected
    assert user_of(accepted.getpeername(), accepted.getsockname()) == os.geteuid()
    assert own_user_question(accepted)()


def test_a_connection_of_this_user_is_a_strangers_for_every_other_user(connected: Connected) -> None:
    assert not own_user_question(connected[1], user=os.geteuid() + 1)()


def test_root_is_a_stranger_where_postroom_is_another_user(connected: Connected) -> None:
    found = own_user_question(connected[1], user=1000)()
    assert found is (os.geteuid() == 1000)


def test_a_client_that_only_ended_its_request_is_known(connected: Connected) -> None:
    client, accepted = connected
    client.shutdown(socket.SHUT_WR)
    assert own_user_question(accepted)()


def test_the_user_of_a_closed_socket_is_not_believed(connected: Connected) -> None:
    """Some kernels say 0 of a socket that no process has, which would make every caller root."""
    client, accepted = connected
    client.sendall(b"GET / HTTP/1.1\r\n\r\n")
    client.close()
    assert user_of(accepted.getpeername(), accepted.getsockname()) is None
    assert not own_user_question(accepted)()


def test_a_connection_that_was_reset_has_no_user(connected: Connected) -> None:
    client, accepted = connected
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert not own_user_question(accepted)()


def test_the_kernel_is_asked_once_for_a_connection(connected: Connected) -> None:
    client, accepted = connected
    is_own_user = own_user_question(accepted)
    assert is_own_user()
    client.close()
    assert is_own_user()


def test_a_listener_with_the_port_of_a_client_that_is_gone_is_no_client() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_server(("127.0.0.1", 0)) as server:
        assert user_of(listener.getsockname(), server.getsockname()) is None


@pytest.mark.parametrize("given", [None, "", "/run/postroom.sock", ("somewhere", 1)])
def test_another_kind_of_connection_has_no_user(given: object) -> None:
    assert user_of(given, ("127.0.0.1", 1)) is None


def test_a_connection_of_a_socket_file_is_a_strangers() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert not own_user_question(one)()
    assert not own_user_question(None)()


def test_the_table_of_all_connections_says_the_same(connected: Connected) -> None:
    """It is read where the kernel does not answer questions about one socket."""
    its, ours = (connected_user._end(end) for end in (connected[1].getpeername(), connected[1].getsockname()))
    assert isinstance(its, End)
    assert isinstance(ours, End)
    found = connected_user._read_table(its, ours)
    assert found == connected_user._ask_kernel(its, ours)
    assert found is not None
    assert found[0] == os.geteuid()
    assert found[1] == os.fstat(connected[0].fileno()).st_ino


@needs_root
def test_a_connection_of_another_user_is_that_users() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(LIMIT_S)
        process = FORKS.Process(target=connect_as_nobody, args=(server.getsockname()[1],))
        process.start()
        accepted, _ = server.accept()
        with accepted:
            assert accepted.recv(1) == b"x"
            assert user_of(accepted.getpeername(), accepted.getsockname()) == NOBODY
            assert not own_user_question(accepted)()
        process.join(LIMIT_S)


def test_users_that_our_namespace_does_not_have_are_all_called_the_same(connected: Connected) -> None:
    """So nobody is known to Postroom where it runs as that user itself."""
    assert not own_user_question(connected[1], user=NOBODY)()
    assert Path("/proc/sys/kernel/overflowuid").read_text().strip() == str(NOBODY)
