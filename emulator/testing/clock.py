"""The emulator's clock in a test."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from emulator.base.clock_page import ClockPage
from emulator.base.state import StateFolder
from emulator.cli import client

_MILLISECOND = timedelta(milliseconds=1)


class EmulatorClock:
    """One clock for functions, schedules, retries, fake platforms and prompts: ``docs/emulator-clock.md``."""

    def __init__(self, state: StateFolder) -> None:
        self._state = state

    @property
    def now(self) -> datetime:
        """What it says, in UTC."""
        return datetime.fromtimestamp(self.now_ms() / 1000, UTC)

    def now_ms(self) -> int:
        """The same as rows have it: milliseconds since 1970, UTC."""
        return ClockPage(self._state.clock).now_ms()

    def jump(self, by: timedelta, *, leap: bool = False) -> int:
        """Go so far through each instant at which something is due, and do it; returns how many there were.

        Args:
            leap: at once, as after a pause of Postroom of that length.
        """
        return self._move({"move": "jump", "by": by // _MILLISECOND, "leap": leap})

    def jump_to(self, at: datetime, *, leap: bool = False) -> int:
        """The same to an instant; one without a zone is of this machine's."""
        return self._move({"move": "jump", "to": round(at.timestamp() * 1000), "leap": leap})

    def freeze(self) -> None:
        """Let it stand still; a jump moves it all the same."""
        self._move({"move": "freeze"})

    def resume(self) -> None:
        """Let it run on at the pace of a real one, after :meth:`freeze` or :meth:`speed`."""
        self.speed(1)

    def speed(self, times: int) -> None:
        """Let it run up to so many times as fast."""
        self._move({"move": "speed", "speed": times})

    def _move(self, move: Mapping[str, Any]) -> int:
        return int(client.move_clock(self._state.path, move)["stops"])
