"""A running emulator in the hands of a test: its people, its rows, its clock, its faults.

The fixture ``emulator`` of :mod:`emulator.pytest_plugin` gives a :class:`RunningEmulator`; see ``docs/testing.md``.
"""

from emulator.testing.clock import EmulatorClock
from emulator.testing.platform import FakePlatform, SaidMessage
from emulator.testing.running import RunningEmulator
from emulator.testing.waiting import wait_until

__all__ = ["EmulatorClock", "FakePlatform", "RunningEmulator", "SaidMessage", "wait_until"]
