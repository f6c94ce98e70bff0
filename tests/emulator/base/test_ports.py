"""A port that is taken is said with who has it, and the next one is used."""

import os
import socket

from emulator.base import ports


def test_the_wanted_port_is_used_when_it_is_free() -> None:
    with socket.socket() as probe:
        probe.bind((ports.LOOPBACK, 0))
        free = probe.getsockname()[1]

    listening = ports.listen(free)
    with listening.sock:
        assert (listening.port, listening.instead_of) == (free, None)


def test_a_taken_port_moves_to_the_next_and_names_the_holder() -> None:
    first = ports.listen()
    with first.sock:
        second = ports.listen(first.port)
        with second.sock:
            assert second.port != first.port
            assert second.instead_of == first.port
            assert f"[{os.getpid()}]" in (second.holder or "")


def test_nobody_holds_a_free_port() -> None:
    with socket.socket() as probe:
        probe.bind((ports.LOOPBACK, 0))  # bound, not listening

        assert ports.holder(probe.getsockname()[1]) is None
