"""What the supervisor reports: requests from Litestream's metrics and our client, and a survey of the bucket."""

import asyncio
import http.server
import threading

import pytest

from infra.litestream.bucket import request_metrics
from infra.litestream.bucket.bucket_survey import sum_up
from infra.litestream.lease import Lease
from infra.litestream.lease_owner import LeaseOwner
from infra.litestream.report_writer import ReportWriter, without_query
from shared.core.errors import ConfigInvalid
from shared.db.replica import replica_report
from shared.db.replica.lease_record import ReplicaPrefix
from shared.db.replica.object_store import FolderStore, ListedObject, open_store
from shared.db.replica.replica_report import LevelFacts
from shared.db.replica.request_counts import OF_A_RESTORE, RequestCounts
from tests.support import NOW

DAY = "2027-01-15"
MB = 1_048_576
METRICS = """# HELP litestream_replica_operation_bytes The number of bytes used by replica operations.
litestream_replica_operation_bytes{{operation="PUT",replica_type="s3"}} {sent}
litestream_replica_operation_duration_seconds_sum{{operation="PUT",replica_type="s3"}} 0.5
litestream_replica_operation_total{{operation="DELETE",replica_type="s3"}} 83
litestream_replica_operation_total{{operation="PUT",replica_type="s3"}} {puts}
"""


class MetricsServer:
    """A Litestream's metrics; *text* is what they say."""

    def __init__(self):
        self.text = METRICS.format(puts=0, sent=0)
        served = self

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(served.text.encode())

            def log_message(self, *_):
                pass

        self._server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
        self.address = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def metrics():
    served = MetricsServer()
    yield served
    served.close()


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


def writer(db, lease, **more):
    found = ReportWriter(
        db, "s3://bucket/db?endpoint=http://h:1&secret=x", lease, more.pop("environ", {}), verify_every_ms=5,
        is_behind=more.pop("is_behind", lambda: False),
    )  # fmt: skip
    found.begin_litestream()
    return found


def write(reports, now_ms=NOW):
    asyncio.run(reports.write(now_ms))


def test_metrics_of_a_large_upload_count_its_parts():
    """192 bytes and four copies of 30 MB, of which S3 saw 24 parts."""
    found = request_metrics.parse(METRICS.format(puts=5, sent="1.22912691e+08"))
    assert found == RequestCounts(puts=5 + 23, deletes=83, sent_bytes=122_912_691)


def test_metrics_that_do_not_answer_are_none():
    assert request_metrics.read("127.0.0.1:1") is None


def test_listings_are_estimated_by_the_time_and_by_the_pages_of_level_0():
    assert request_metrics.unseen(3600, 10, has_begun=False) == RequestCounts(lists=430, gets=60)
    assert request_metrics.unseen(3600, 10, has_begun=True).lists == 430 + 21
    assert request_metrics.unseen(3600, 9500, has_begun=False).lists == 240 + 190 * 10


def test_requests_are_counted_over_restarts_of_litestream_and_of_the_supervisor(db, lease, metrics):
    environ = {"POSTROOM_LITESTREAM_ADDR": metrics.address}
    reports = writer(db, lease, environ=environ)
    for puts in (3, 10):
        metrics.text = METRICS.format(puts=puts, sent=puts * 100)
        lease.store.requests.add(RequestCounts(puts=1))
        write(reports)
    reports.begin_litestream()
    metrics.text = METRICS.format(puts=2, sent=200)
    write(reports)
    day = replica_report.read(db).days[DAY]
    assert (day.litestream.puts, day.litestream.sent_bytes) == (12, 1200)
    assert day.litestream.lists == 2 * request_metrics.LISTS_AT_START
    assert day.postroom.puts == 2

    another = writer(db, lease, environ=environ)
    write(another)
    assert replica_report.read(db).days[DAY].litestream.puts == 14


def test_a_report_says_where_the_replica_is_and_what_lies_there(db, lease):
    path = db.parent / "replica/epoch_a/ltx/9/0000000000000001-0000000000000007.ltx"
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(500))
    write(writer(db, lease))
    found = replica_report.read(db)
    assert (found.url, found.prefix, found.epoch) == ("s3://bucket/db", "epoch_a", "epoch_b")
    assert (found.at, found.verify_every_ms, found.behind_since) == (NOW, 5, None)
    assert 50_000 < found.until - NOW <= 60_000
    (level,) = found.survey.levels
    assert (level.level, level.files, level.bytes, level.position) == (9, 1, 500, "0000000000000007")
    assert found.days[DAY].stored_bytes == found.survey.bytes > 500, "lease.json lies there too"


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


def test_each_litestream_gets_an_address_of_its_own_unless_one_is_set(db, lease):
    reports = writer(db, lease)
    first, second = (reports.begin_litestream()["POSTROOM_LITESTREAM_ADDR"] for _ in range(2))
    assert first.startswith("127.0.0.1:")
    assert second == reports.address
    chosen = writer(db, lease, environ={"POSTROOM_LITESTREAM_ADDR": "127.0.0.1:9"})
    assert chosen.begin_litestream()["POSTROOM_LITESTREAM_ADDR"] == "127.0.0.1:9"


@pytest.mark.parametrize(("setting", "taken"), [(None, "100ms"), ("2s", "2000ms"), ("10ms", "10ms")])
def test_litestream_gets_the_interval_of_its_uploads(db, lease, setting, taken):
    environ = {} if setting is None else {"POSTROOM_REPLICA_INTERVAL": setting}
    assert writer(db, lease, environ=environ).begin_litestream()["POSTROOM_REPLICA_INTERVAL"] == taken


@pytest.mark.parametrize("setting", ["9ms", "61s", "often"])
def test_an_interval_that_is_none_is_refused(db, lease, setting):
    with pytest.raises(ConfigInvalid, match="POSTROOM_REPLICA_INTERVAL"):
        writer(db, lease, environ={"POSTROOM_REPLICA_INTERVAL": setting})


def test_only_files_of_the_current_prefix_are_levels_and_all_are_bytes(lease):
    names = ["epoch_a/0000/0000000000000001-0000000000000002.ltx", "epoch_a/0000/0000000000000003-0000000000000003.ltx"]
    others = ["epoch_old/0009/0000000000000001-00000000000000ff.ltx", "lease.json", "epoch_a/0000/notes.txt"]
    found = sum_up([ListedObject(name, 10, 5.0) for name in (*names, *others)], lease.record, now_ms=NOW)
    assert found.levels == [LevelFacts(0, 2, 20, "0000000000000003", 5000)]
    assert (found.files, found.bytes, found.position) == (5, 50, "0000000000000003")


def test_a_folder_bills_nothing(db, lease, metrics):
    metrics.text = METRICS.format(puts=5, sent=500)
    reports = ReportWriter(
        db, f"file://{db.parent}/replica", lease, {"POSTROOM_LITESTREAM_ADDR": metrics.address}, verify_every_ms=0,
        is_behind=lambda: False,
    )  # fmt: skip
    lease.store.count_restore()
    write(reports)
    day = replica_report.read(db).days[DAY]
    assert (day.litestream.total, day.postroom.total) == (0, 0)


def test_a_restore_from_a_bucket_counts_its_listings():
    store = open_store("s3://bucket/db?endpoint=http://127.0.0.1:1", {})
    store.count_restore()
    assert store.requests.take() == OF_A_RESTORE


def test_a_query_of_a_url_is_not_for_people():
    assert without_query("s3://b/p?endpoint=http://h:1") == "s3://b/p"
