"""What the supervisor reports: the requests of our client, and a survey of the bucket."""

import asyncio

import pytest

from infra.litestream.bucket.bucket_survey import sum_up
from infra.litestream.lease import Lease
from infra.litestream.lease_owner import LeaseOwner
from infra.litestream.report_writer import ReportWriter
from shared.db.replica import replica_report
from shared.db.replica.folder_store import FolderStore
from shared.db.replica.lease_record import ReplicaPrefix
from shared.db.replica.replica_report import LevelFacts
from shared.db.replica.request_counts import RequestCounts
from shared.db.replica.stored_objects import ListedObject
from tests.support import NOW

DAY = "2027-01-15"


@pytest.fixture
def lease(db):
    store = FolderStore(db.parent / "replica")
    found = Lease(store, LeaseOwner("owner_one", "host", str(db)))
    prefix = ReplicaPrefix("epoch_a", None, "owner_one", NOW)

    async def go():
        await found.take()
        await found.begin_prefix(prefix, None)
        await found.note_full_copy(prefix, "epoch_b")

    asyncio.run(go())
    return found


def writer(db, lease, is_behind=lambda: False, why_behind=lambda: (None, 0)):
    url = "s3://bucket/db?endpoint=http://h:1&secret=x"
    return ReportWriter(db, url, lease, verify_every_ms=5, is_behind=is_behind, why_behind=why_behind)


def write(reports, now_ms=NOW):
    asyncio.run(reports.write(now_ms))


def test_our_requests_are_counted_since_the_supervisor_started(db, lease):
    reports = writer(db, lease)
    for passed_ms in (0, 5000):
        lease.store.requests.add(RequestCounts(puts=1))
        write(reports, NOW + passed_ms)
    found = replica_report.read(db)
    assert (found.requests, found.counting_since) == (RequestCounts(puts=2), NOW)


def test_the_sizes_of_the_last_days_survive_a_restart_of_the_supervisor(db, lease):
    for passed_days in (0, 1):
        write(writer(db, lease), NOW + passed_days * 86_400_000)
    sizes = replica_report.read(db).sizes
    assert [*sizes] == [DAY, "2027-01-16"]
    assert min(sizes.values()) > 0


def test_a_report_says_where_the_replica_is_and_what_lies_there(db, lease):
    path = db.parent / "replica/epoch_a/ltx/9/0000000000000001-0000000000000007.ltx"
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(500))
    write(writer(db, lease))
    found = replica_report.read(db)
    assert (found.url, found.prefix, found.epoch) == ("s3://bucket/db?endpoint=http://h:1", "epoch_a", "epoch_b")
    assert (found.at, found.verify_every_ms, found.behind_since) == (NOW, 5, None)
    assert 50_000 < found.until - NOW <= 60_000
    (level,) = found.survey.levels
    assert (level.level, level.files, level.bytes, level.position) == (9, 1, 500, "0000000000000007")
    assert found.sizes[DAY] == found.survey.bytes > 500, "lease.json lies there too"


def test_the_bucket_is_listed_once_an_hour(db, lease):
    reports = writer(db, lease)
    for passed_ms in (0, 3_599_999, 3_600_000):
        write(reports, NOW + passed_ms)
        surveyed_at = replica_report.read(db).survey.at
        assert surveyed_at == NOW + (passed_ms if passed_ms == 3_600_000 else 0)


def test_a_report_says_since_when_commits_do_not_arrive(db, lease):
    behind = [True, True, False]
    reports = writer(db, lease, is_behind=lambda: behind.pop(0))
    for expected in (NOW, NOW, None):
        write(reports)
        assert replica_report.read(db).behind_since == expected


def test_a_report_says_what_the_supervisor_knows_of_the_reason(db, lease):
    write(writer(db, lease, why_behind=lambda: (True, 2)))
    found = replica_report.read(db)
    assert (found.bucket_answers, found.restarts) == (True, 2)


def test_news_is_written_at_once_and_not_when_the_next_report_is_due(db, lease):
    async def go():
        loop, looks = asyncio.get_running_loop(), asyncio.Queue()
        reports = writer(db, lease, is_behind=lambda: loop.call_soon_threadsafe(looks.put_nowait, True) is None)
        running = asyncio.create_task(reports.run())
        await looks.get()
        reports.write_soon()
        async with asyncio.timeout(5):
            await looks.get()
        running.cancel()

    asyncio.run(go())


def test_a_stop_that_comes_together_with_news_ends_the_reports(db, lease):
    """A stop of everything waits for that."""

    async def go():
        reports = writer(db, lease)
        running = asyncio.create_task(reports.run())
        while not reports._has_news._waiters:  # noqa: ASYNC110 - it waits inside of asyncio
            await asyncio.sleep(0)
        reports.write_soon()
        running.cancel()
        done, _ = await asyncio.wait([running], timeout=20)
        assert done
        assert running.cancelled()

    asyncio.run(go())


def test_a_folder_that_can_not_be_written_ends_nothing(db, lease):
    reports = writer(db, lease)
    db.with_name(f"{db.name}-replica.tmp").mkdir()
    write(reports)
    assert replica_report.read(db) is None


def test_only_files_of_the_current_prefix_are_levels_and_all_are_bytes(lease):
    names = ["epoch_a/0000/0000000000000001-0000000000000002.ltx", "epoch_a/0000/0000000000000003-0000000000000003.ltx"]
    others = ["epoch_old/0009/0000000000000001-00000000000000ff.ltx", "lease.json", "epoch_a/0000/notes.txt"]
    found = sum_up([ListedObject(name, 10, 5.0) for name in (*names, *others)], lease.record, now_ms=NOW)
    assert found.levels == [LevelFacts(0, 2, 20, "0000000000000003", 5000)]
    assert (found.files, found.bytes, found.position) == (5, 50, "0000000000000003")
