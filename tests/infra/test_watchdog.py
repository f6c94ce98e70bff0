"""Signs for systemd's watchdog, in a socket as systemd's."""

import asyncio
import os
import socket

import pytest

from infra.watchdog import Watchdog
from shared.core.time import clock
from tests.infra.service_manager import HOLDS_OFF, NotifySocket, asked


class LiteralClocks(clock.MachineClocks):
    s = 100.0

    def monotonic_s(self):
        return self.s


@pytest.fixture
def clocks():
    clocks = LiteralClocks()
    clock.run_on(clocks)
    yield clocks
    clock.run_on(clock.MachineClocks())


@pytest.fixture
def notify(tmp_path):
    notify = NotifySocket(tmp_path / "notify", limit_s=120)
    yield notify
    notify.close()


def test_the_watchdog_holds_off_until_the_first_sign_and_a_sign_is_given_four_times_in_its_limit(notify, clocks):
    watchdog = Watchdog(asked(notify))
    watchdog.hold_off()
    assert notify.waiting() == [HOLDS_OFF]
    for clocks.s in (100, 101, 129, 130, 131, 160):
        watchdog.give()
    assert notify.waiting() == [notify.sign] * 3
    assert notify.sign == "WATCHDOG_USEC=120000000\nWATCHDOG=1"


@pytest.mark.parametrize(
    "other",
    [
        {"WATCHDOG_PID": "1"},
        {"WATCHDOG_PID": ""},
        {"WATCHDOG_USEC": ""},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "soon"},
        {"NOTIFY_SOCKET": ""},
    ],
    ids=lambda other: "=".join(*other.items()),
)
def test_a_process_that_systemd_does_not_ask_gives_no_sign(notify, other):
    """A program that a function starts inherits the environment."""
    watchdog = Watchdog({**asked(notify), **other})
    watchdog.hold_off()
    watchdog.give()

    async def turn():
        async with watchdog.kept():
            await asyncio.sleep(0)

    asyncio.run(turn())
    assert notify.waiting() == []


def test_a_sign_reaches_an_abstract_socket():
    name = f"postroom-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(f"\0{name}")
        environment = {"NOTIFY_SOCKET": f"@{name}", "WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}
        Watchdog(environment).give()
        assert sock.recv(100, socket.MSG_DONTWAIT).endswith(b"WATCHDOG=1")


def test_a_systemd_that_reads_nothing_holds_nobody(notify, clocks):
    watchdog = Watchdog(asked(notify))
    for clocks.s in range(0, 100_000, 60):  # more than the queue of a socket takes
        watchdog.give()
    assert 0 < len(notify.waiting()) < 1000
    notify.close()
    watchdog.hold_off()
