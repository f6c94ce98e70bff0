"""If a port is in use, the next one is used, and the process that holds it is named."""

import os
import socket

from emulator.base import ports
from tests.infra.processes import kept_port


def test_the_wanted_port_is_used_when_it_is_free() -> None:
    kept, free = kept_port()
    with kept, ports.listen(free).sock as sock:
        assert sock.getsockname()[1] == free


def test_a_used_port_is_replaced_by_the_next_and_its_holder_is_named() -> None:
    first = ports.listen()
    with first.sock:
        second = ports.listen(first.port)
        with second.sock:
            assert second.port != first.port
            assert second.instead_of == first.port
            assert f"[{os.getpid()}]" in (second.holder or "")


def test_a_free_port_has_no_holder() -> None:
    with socket.socket() as probe:
        probe.bind((ports.LOOPBACK, 0))  # bound, not listening

        assert ports.holder(probe.getsockname()[1]) is None
