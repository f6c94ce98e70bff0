"""What a check found."""

from typing import Literal, NamedTuple

Level = Literal["ok", "warning", "problem"]


class Finding(NamedTuple):
    """One line of the doctor.

    Attributes:
        subject: such as ``disk``.
        level: a problem stops something from working; a warning is what an operator should know.
        says: one sentence.
        mend: the one command, or act, that mends it.
    """

    subject: str
    level: Level
    says: str
    mend: str | None = None


def ok(subject: str, says: str) -> Finding:
    """No problems."""
    return Finding(subject, "ok", says)


def warning(subject: str, says: str, mend: str | None = None) -> Finding:
    """Works, and should be known."""
    return Finding(subject, "warning", says, mend)


def problem(subject: str, says: str, mend: str | None = None) -> Finding:
    """Does not work."""
    return Finding(subject, "problem", says, mend)
