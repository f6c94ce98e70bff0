"""What the supervisor knows of the replica: a small file beside the database, written every few seconds.

The supervisor alone may ask the bucket. The API shows the file to operators on other machines, and the file keeps the
sizes of the last days over restarts.
"""

from datetime import date
from pathlib import Path

import msgspec

from shared.core.time import clock
from shared.db.engine import owner_only
from shared.db.replica.request_counts import RequestCounts

_LONGEST = 1_000_000  # bytes; what is longer was not written here
DAYS_KEPT = 35
SNAPSHOTS = 9  # the level of Litestream that holds whole copies


class LevelFacts(msgspec.Struct, frozen=True):
    """The files of one level of Litestream in the current prefix; ``SNAPSHOTS`` is the level of whole copies.

    Attributes:
        position: of the newest file, sixteen hexadecimal digits.
        written_at: when the newest was written, ms UTC by the bucket's clock.
    """

    level: int
    files: int
    bytes: int
    position: str
    written_at: int


class BucketSurvey(msgspec.Struct, frozen=True):
    """What lies in the bucket.

    Attributes:
        at: of the survey, ms UTC.
        levels: of the current prefix, those that have files.
        files, bytes: of the whole replica, old prefixes too.
        old_prefixes: how many there are.
    """

    at: int
    levels: list[LevelFacts]
    files: int
    bytes: int
    old_prefixes: int

    @property
    def position(self) -> str:
        """The newest position in the current prefix; empty where there is none."""
        return max((level.position for level in self.levels), default="")

    @property
    def snapshot_at(self) -> int | None:
        """When the newest whole copy was written; None while there is none."""
        return next((each.written_at for each in self.levels if each.level == SNAPSHOTS), None)


class ReplicaReport(msgspec.Struct, frozen=True):
    """What the supervisor knew at *at*; all instants in ms UTC, in the file by the machine's clock.

    Attributes:
        url: of the replica, without secrets.
        prefix, epoch: the current ones; the epoch is None until the first full copy.
        holder: where the holder of the lease is, in words.
        renewed_at, until: of the lease.
        behind_since: since when commits do not reach the bucket; None while they do.
        verify_every_ms: how often a restore is compared; 0: never by itself.
        requests: of our own client, since the supervisor started at *counting_since*; a folder needs none.
        sizes: the bytes of the whole replica at the last survey of each day (UTC), the oldest first.
        bucket_answers: the supervisor, while commits do not reach the bucket; None: they do, or it did not ask.
        restarts: of a Litestream that stood still, since commits last reached the bucket.
    """

    at: int
    url: str
    prefix: str
    epoch: str | None
    has_full_copy: bool
    holder: str
    renewed_at: int
    until: int
    behind_since: int | None
    verify_every_ms: int
    requests: RequestCounts
    counting_since: int
    survey: BucketSurvey | None
    sizes: dict[str, int]
    bucket_answers: bool | None = None  # a report of an earlier release has neither
    restarts: int = 0

    def write(self, database: Path) -> None:
        """Replace the file, readable by this user only.

        Raises:
            OSError: no room, or no right to write there.
        """
        owner_only.replace_text(_path(database), msgspec.json.encode(self).decode())


def read(database: Path) -> ReplicaReport | None:
    """The newest report, on the clock of the rows; None if there is none that can be read."""
    try:
        with _path(database).open("rb") as file:
            found = msgspec.json.decode(file.read(_LONGEST), type=ReplicaReport)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return msgspec.structs.replace(
        found,
        at=clock.of_machine(found.at),
        renewed_at=clock.of_machine(found.renewed_at),
        until=clock.of_machine(found.until),
        behind_since=None if found.behind_since is None else clock.of_machine(found.behind_since),
        counting_since=clock.of_machine(found.counting_since),
    )


def add_size(sizes: dict[str, int], day: str, size: int) -> dict[str, int]:
    """The sizes with the *size* of a day; those of more than a month ago are left out."""
    return dict(sorted({**sizes, day: size}.items())[-DAYS_KEPT:])


def growth_per_day(sizes: dict[str, int]) -> float | None:
    """By how many bytes the replica grew in a day, over the days that are known; None with fewer than two."""
    if len(sizes) < 2:
        return None
    first, last = min(sizes), max(sizes)
    return (sizes[last] - sizes[first]) / (date.fromisoformat(last) - date.fromisoformat(first)).days


def _path(database: Path) -> Path:
    return database.with_name(f"{database.name}-replica")
