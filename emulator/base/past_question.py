"""Which past somebody asks for: a replica, and a position of it."""

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from emulator.base.errors import InvalidInput, UsageError

FOLDERS = Path(".emulator-past")


@dataclass(frozen=True, slots=True)
class PastQuestion:
    """*timestamp* or *txid*, or neither for the newest position; *epoch*: only in this history."""

    replica: str
    timestamp: str | None = None
    txid: str | None = None
    epoch: str | None = None

    @property
    def asked(self) -> str:
        """The position as it was written, to know the same question again; empty: the newest."""
        position = self.timestamp or (f"txid {self.txid}" if self.txid else "")
        return f"{position} of epoch {self.epoch}" if position and self.epoch else position

    def folder(self, txid: str) -> Path:
        """The state folder for the answer, where none is named. *txid*: of the position, where none was asked for."""
        name = re.sub(r"[^0-9A-Za-z+-]", "-", self.timestamp or f"txid-{self.txid or txid}".lower())
        which = hashlib.sha256(f"{self.replica}\n{self.epoch or ''}".encode()).hexdigest()[:6]
        return FOLDERS / f"{name[:60]}-{which}"


def check(
    replica: str | None, timestamp: str | None, txid: str | None, epoch: str | None, *, now: datetime
) -> PastQuestion | None:
    """The question that the options of ``emulator run`` ask; None: they ask for no past.

    Raises:
        UsageError, InvalidInput: they contradict each other, or the instant is none of the past.
    """
    if replica is None:
        if timestamp or txid or epoch:
            raise UsageError("--timestamp, --txid and --epoch say which past of a replica: name it with --from-replica")
        return None
    if timestamp and txid:
        raise UsageError("a position is a --timestamp or a --txid: leave one of them out")
    if timestamp:
        _check_instant(timestamp, now)
    return PastQuestion(replica, timestamp, txid, epoch)


def _check_instant(text: str, now: datetime) -> None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"{text!r} is no timestamp: write it like 2026-03-01T12:00:00Z (UTC)") from None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    if at > now:
        raise InvalidInput(
            f"{text} is in the future: it is {now.astimezone(UTC).strftime('%Y-%m-%dT%H:%M:%SZ')} now. For the newest "
            f"position leave --timestamp out"
        )
