"""What the supervisor knows of the replica: a small file beside the database, written every few seconds.

The supervisor alone may ask the bucket. The API shows the file to operators on other machines, and the file keeps the
counts of requests over restarts.
"""

from pathlib import Path

import msgspec

from shared.db.engine import owner_only
from shared.db.replica.bucket_cost import BucketPrices
from shared.db.replica.request_counts import NONE, RequestCounts

_LONGEST = 1_000_000  # bytes; what is longer was not written here
DAYS_KEPT = 35
FOLDER = "file:"  # so begins the URL of a replica in a folder, which bills nothing
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


class DayUse(msgspec.Struct, frozen=True):
    """The requests of one day (UTC).

    Attributes:
        observed_s: how long they were counted.
        litestream, postroom: by Litestream, and by our own client.
        stored_bytes: at the day's last survey; None without one.
    """

    observed_s: float = 0.0
    litestream: RequestCounts = NONE
    postroom: RequestCounts = NONE
    stored_bytes: int | None = None


class ReplicaReport(msgspec.Struct, frozen=True):
    """What the supervisor knew at *at*; all instants in ms UTC.

    Attributes:
        url: of the replica, without its query.
        prefix, epoch: the current ones; the epoch is None until the first full copy.
        holder: where the holder of the lease is, in words.
        renewed_at, until: of the lease.
        behind_since: since when commits do not reach the bucket; None while they do.
        verify_every_ms: how often a restore is compared; 0: never by itself.
        days: by day (UTC), the oldest first.
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
    prices: BucketPrices
    survey: BucketSurvey | None
    days: dict[str, DayUse]

    def write(self, database: Path) -> None:
        """Replace the file, readable by this user only.

        Raises:
            OSError: no room, or no right to write there.
        """
        owner_only.replace_text(_path(database), msgspec.json.encode(self).decode())


def read(database: Path) -> ReplicaReport | None:
    """The newest report; None if there is none that can be read."""
    try:
        with _path(database).open("rb") as file:
            return msgspec.json.decode(file.read(_LONGEST), type=ReplicaReport)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def add_day(days: dict[str, DayUse], day: str, more: DayUse) -> dict[str, DayUse]:
    """The days with *more* added to one of them; those of more than a month ago are left out."""
    there = days.get(day, DayUse())
    both = DayUse(
        there.observed_s + more.observed_s,
        there.litestream.plus(more.litestream),
        there.postroom.plus(more.postroom),
        there.stored_bytes if more.stored_bytes is None else more.stored_bytes,
    )
    return dict(sorted({**days, day: both}.items())[-DAYS_KEPT:])


def sum_days(days: dict[str, DayUse], newest: int) -> DayUse:
    """The newest days together."""
    found = DayUse()
    for each in list(days.values())[-newest:]:
        found = add_day({"": found}, "", each)[""]
    return found


def growth_per_day(days: dict[str, DayUse]) -> float | None:
    """By how many bytes the replica grew in a day, over the days that are known; None with fewer than two."""
    known = [(number, each.stored_bytes) for number, each in enumerate(days.values()) if each.stored_bytes is not None]
    if len(known) < 2:
        return None
    (first, before), (last, after) = known[0], known[-1]
    return (after - before) / (last - first)


def _path(database: Path) -> Path:
    return database.with_name(f"{database.name}-replica")
