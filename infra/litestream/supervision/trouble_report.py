"""Reports a trouble when it begins and when it ends, however often it is seen meanwhile."""

from collections.abc import Callable


class TroubleReport:
    """One kind of trouble.

    Args:
        report: as of the supervisor.
        begun: the event that reports the beginning, with its ``reason``.
        ended: the event that reports the end; by default nothing is said of it.
    """

    def __init__(self, report: Callable[..., None], begun: str, ended: str | None = None) -> None:
        self.problem: str | None = None  # as it was last seen
        self._report = report
        self._begun = begun
        self._ended = ended

    def see(self, problem: str | None) -> None:
        """The trouble is there, for this reason; or it is not (None)."""
        before, self.problem = self.problem, problem
        if problem is not None and before is None:
            self._report(self._begun, reason=problem)
        elif problem is None and before is not None and self._ended is not None:
            self._report(self._ended)
