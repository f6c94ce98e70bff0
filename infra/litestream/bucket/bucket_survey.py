"""What lies in the bucket: the files of each level of Litestream, their bytes, and the newest position of each."""

import re
from collections.abc import Iterable, Mapping

from shared.db.replica import lease_record
from shared.db.replica.lease_record import LeaseRecord
from shared.db.replica.object_store import ObjectStore, open_store
from shared.db.replica.replica_report import BucketSurvey, LevelFacts
from shared.db.replica.stored_objects import ListedObject

# In a bucket PREFIX/000L/MIN-MAX.ltx, in a folder PREFIX/ltx/L/MIN-MAX.ltx.
_FILE = re.compile(r"(?:ltx/)?0{0,3}([0-9])/[0-9a-f]{16}-([0-9a-f]{16})\.ltx")


def look_into_bucket(
    url: str, environ: Mapping[str, str], *, now_ms: int
) -> tuple[LeaseRecord, BucketSurvey] | tuple[None, None]:
    """The lease record of the replica at *url*, and what lies there; nothing where no machine ever replicated.

    Raises:
        PostroomError: the bucket does not answer, or is not what the URL says.
    """
    store = open_store(url, environ)
    there = lease_record.read(store)
    return (there, survey(store, there, now_ms=now_ms)) if there else (None, None)


def survey(store: ObjectStore, there: LeaseRecord, *, now_ms: int) -> BucketSurvey:
    """List the whole replica: one request for each thousand files.

    Raises:
        StoreUnreachable, StoreRefused
    """
    return sum_up(store.every(), there, now_ms=now_ms)


def sum_up(found: Iterable[ListedObject], there: LeaseRecord, *, now_ms: int) -> BucketSurvey:
    """The survey of these objects."""
    levels: dict[int, LevelFacts] = {}
    files = size = 0
    beginning = there.current.key("")
    for each in found:
        files, size = files + 1, size + each.bytes
        if each.name.startswith(beginning) and (named := _FILE.fullmatch(each.name.removeprefix(beginning))):
            level = int(named[1])
            levels[level] = _with(levels.get(level), level, named[2], each)
    return BucketSurvey(now_ms, [levels[level] for level in sorted(levels)], files, size, len(there.old_prefixes))


def _with(level: LevelFacts | None, number: int, position: str, file: ListedObject) -> LevelFacts:
    written_at = round(file.written_at_s * 1000)
    if level is None:
        return LevelFacts(number, 1, file.bytes, position, written_at)
    return LevelFacts(
        number,
        level.files + 1,
        level.bytes + file.bytes,
        max(level.position, position),
        max(level.written_at, written_at),
    )
