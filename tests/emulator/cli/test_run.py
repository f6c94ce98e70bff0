"""How ``emulator run`` ends: at a signal, and at none that its starter lets it ignore."""

import asyncio
import signal
from collections.abc import Iterator

import pytest

from emulator.cli.run import until_signalled


@pytest.fixture(autouse=True)
def _hangups_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


async def _hung_up() -> bool:
    """Whether a hangup asks the command to stop."""
    async with until_signalled() as signalled:
        signal.raise_signal(signal.SIGHUP)
        done, _ = await asyncio.wait([signalled], timeout=0.1)
        return bool(done)


def test_a_hangup_ends_it() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    assert asyncio.run(_hung_up())


def test_under_nohup_it_outlives_the_terminal() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert not asyncio.run(_hung_up())
