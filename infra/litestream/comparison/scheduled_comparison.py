"""Compares the database with a restore of its replica from time to time (``comparison/compare.py``)."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from infra.litestream.comparison import verify
from infra.litestream.comparison.compare import remove_leftovers

_AGAIN_S = 3600.0  # once, after a comparison found a difference or could not compare
_SOON_S = 10.0  # while the replica is behind


class ScheduledComparison:
    """The comparisons of one supervisor, and what was last reported of them.

    Args:
        control: Litestream's control socket.
        period_ms: from one to the next; 0: none but those that a caller asks for.
        report: as of the supervisor.
        is_complete: whether the replica should have everything just now.
        on_difference: called when the replica differs, or does not restore.
    """

    def __init__(
        self,
        database: Path,
        replica: str,
        control: Path,
        environment: Mapping[str, str],
        *,
        period_ms: int,
        report: Callable[..., None],
        is_complete: Callable[[], bool],
        on_difference: Callable[[], None],
    ) -> None:
        self._database = database
        self._replica = replica
        self._control = control
        self._environment = environment
        self._period_s = period_ms / 1000
        self._report = report
        self._is_complete = is_complete
        self._on_difference = on_difference
        self._not_verified: str | None = None  # the reason that was last reported

    async def run(self) -> None:
        """Compare once in each period, for ever; with a period of 0 return at once."""
        if not self._period_s:
            return
        await asyncio.to_thread(remove_leftovers, self._database)
        was_equal, pause_s = True, self._period_s
        while True:
            await asyncio.sleep(pause_s)
            if not self._is_complete():
                pause_s = min(self._period_s, _SOON_S)
                continue
            is_equal = await self.compare()
            is_news = was_equal and not is_equal
            was_equal, pause_s = is_equal, min(self._period_s, _AGAIN_S) if is_news else self._period_s

    async def compare(self) -> bool:
        """Compare once, and report it; whether they are equal."""
        event, facts = await verify.verify_in_subprocess(
            self._database, self._replica, self._control, self._environment
        )
        if event == verify.EQUAL:
            self._not_verified = None
            self._report("replicate.verified", **facts)
        elif event == verify.DIFFERS:
            self._not_verified = None
            self._report("replicate.differs", **facts)
            self._on_difference()
        elif (reason := str(facts.get("reason"))) != self._not_verified:
            self._not_verified = reason
            self._report("replicate.not_verified", **facts)
        return event == verify.EQUAL
