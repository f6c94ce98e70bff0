"""A Litestream that stands still before a well bucket is ended; one that is slow, or has no bucket, is not."""

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.litestream import local_state
from infra.litestream.lease import Lease, lease_on
from infra.litestream.lease_owner import owner_of
from infra.litestream.prepare import prepare_replication
from infra.litestream.replicate import CONFIG_FILE
from infra.litestream.standstill import LookPace, StandstillWatch, Upload, newest_file
from infra.litestream.supervisor import LitestreamSupervisor
from infra.processes import spawn
from shared.db.engine import meta
from shared.db.engine.connection import open_connection, transaction
from shared.db.replica import replica_report
from shared.db.replica.folder_store import FolderStore
from shared.db.replica.lease_record import ReplicaPrefix
from shared.db.replica.litestream_program import program
from shared.db.replica.stored_objects import StoreUnreachable
from shared.roster.new_database import prepare_database
from tests.e2e.crash.test_s3 import Faulty, _Proxied
from tests.emulator.storage.test_s3_server import ENVIRONMENT, s3_server
from tests.support import NOW

MB = 1_000_000
SECONDS = 5.0


def upload(at_s: float, newest: str = "7", waiting: int = 0, renewed_at_s: float | None = None) -> Upload:
    return Upload(at_s, at_s if renewed_at_s is None else renewed_at_s, newest, waiting)


def decided(watch: StandstillWatch, *looks: Upload) -> tuple[list[bool], StandstillWatch]:
    """The decision at each look."""
    found = []
    for look in looks:
        watch = watch.behind(look)
        found.append(watch.stands_still(look))
    return found, watch


WATCH = StandstillWatch(still_s=20)
LOOKS = {
    "nothing arrives": ((upload(0), upload(10), upload(20)), [False, False, True]),
    "too early": ((upload(0), upload(10), upload(19.9)), [False, False, False]),
    "two looks are chance": ((upload(0), upload(60)), [False, False]),
    "a file arrived": (
        (upload(0), upload(10), upload(20, "8"), upload(30, "8"), upload(40, "8")),
        [False] * 4 + [True],
    ),
    "no renewal since": (tuple(upload(at, renewed_at_s=-1) for at in (0, 10, 20)), [False] * 3),
    "a renewal at last": ((*(upload(at, renewed_at_s=0) for at in (0, 10, 20)), upload(30)), [False] * 3 + [True]),
    "5 MB to send": (tuple(upload(at, waiting=5 * MB) for at in (0, 10, 20, 24.9, 25)), [False] * 4 + [True]),
    "more comes to wait": (
        (upload(0), upload(10, waiting=90 * MB), upload(20, waiting=900 * MB)),
        [False, False, True],
    ),
}


@pytest.mark.parametrize(("looks", "decisions"), LOOKS.values(), ids=LOOKS)
def test_litestream_stands_still_when_nothing_arrives_although_the_bucket_is_well(looks, decisions):
    assert decided(WATCH, *looks)[0] == decisions


def test_a_bucket_that_does_not_answer_begins_the_count_again():
    _, watch = decided(WATCH, upload(0), upload(10))
    assert decided(watch.begin_again(), upload(20), upload(30))[0] == [False, False]


def test_each_restart_doubles_the_patience_until_litestream_has_caught_up():
    """So the full copy of a large database over a slow network is finished at last."""
    watch = WATCH.restarted().restarted()
    assert decided(watch, upload(0), upload(40), upload(79), upload(80))[0] == [False, False, False, True]
    assert decided(watch.caught_up(), upload(0), upload(10), upload(20))[0] == [False, False, True]


def test_the_newest_file_is_that_of_the_prefix_behind_the_one_that_is_known(tmp_path: Path):
    store, prefix = FolderStore(tmp_path), ReplicaPrefix("epoch_x", "epoch_x", "owner_one", 1)
    assert newest_file(store, prefix, "") == ""
    for number in (1, 2, 10):
        store.put(f"epoch_x/ltx/0/{number:016x}-{number:016x}.ltx", b"12345", replacing=None)
    store.put("epoch_y/ltx/0/ffffffffffffffff-ffffffffffffffff.ltx", b"", replacing=None)

    newest = newest_file(store, prefix, "")
    assert newest == "epoch_x/ltx/0/000000000000000a-000000000000000a.ltx"
    assert newest_file(store, prefix, newest) == newest


def test_what_waits_is_what_litestream_took_after_the_newest_file(tmp_path: Path):
    database = tmp_path / "p.db"
    assert local_state.bytes_after(database, "") == 0
    files = local_state.folder(database) / "ltx" / "0"
    files.mkdir(parents=True)
    for number, size in ((1, 100), (2, 20), (3, 3)):
        (files / f"{number:016x}-{number:016x}.ltx").write_bytes(b"x" * size)

    assert local_state.bytes_after(database, "") == 123
    assert local_state.bytes_after(database, f"{1:016x}-{1:016x}.ltx") == 23


class Unlisted(FolderStore):
    """A bucket that does not answer a question about its files."""

    def names(self, beginning: str, after: str = "", *, limit: int) -> list[str]:
        raise StoreUnreachable("away")


@pytest.mark.parametrize(
    ("store", "has_database", "told", "known"),
    [
        (FolderStore, True, ["replicate.behind", "replicate.standing_still"], (True, 1)),
        (Unlisted, True, ["replicate.behind"], (False, 0)),
        (FolderStore, False, ["replicate.behind"], (None, 0)),  # the functions have not made it yet
    ],
)
def test_the_supervisor_kills_a_litestream_that_stands_still_before_a_well_bucket(
    tmp_path: Path, store: type[FolderStore], has_database: bool, told: list[str], known: tuple[bool | None, int]
) -> None:
    database, found = tmp_path / "p.db", []
    if has_database:
        prepare_database(database)
    argv = ["sleep", "60"]  # it never answers

    async def scenario() -> int | None:
        lease = Lease(store(tmp_path / "replica"), owner_of(tmp_path / "owner", database))
        await lease.take()
        supervisor = LitestreamSupervisor(
            argv, replica=f"file://{tmp_path}/replica", environment=ENVIRONMENT, database=database,
            control=tmp_path / "l.sock", lease=lease, report=lambda event, **_: found.append(event),
            pace=LookPace(still_s=0),
        )  # fmt: skip
        process = await spawn(argv, environment=ENVIRONMENT)
        await supervisor.start(process)
        for _ in range(4):
            await supervisor.look()
            await lease.renew(newest_event_id=0)
        if has_database:
            await supervisor.reports.write(NOW)
            report = replica_report.read(database)
            assert report is not None
            assert (report.bucket_answers, report.restarts) == known
        await supervisor.stop()
        await process.communicate()  # a pipe that is still open when the loop closes is a warning in any later test
        return process.returncode

    assert asyncio.run(scenario()) == (-9 if len(told) > 1 else -15)
    assert [event for event in found if "litestream_" not in event] == told


class Swallowing(Faulty):
    """A proxy before S3 that never answers the requests of a while, not even when that is over."""

    def __init__(self) -> None:
        super().__init__()
        self.RequestHandlerClass = _Swallowed
        self.until_s = 0.0
        self.swallowed: list[str] = []
        self.over = threading.Event()


class _Swallowed(_Proxied):
    server: Swallowing

    def handle_any(self) -> None:
        if time.monotonic() >= self.server.until_s:
            super().handle_any()
            return
        self._body()
        self.server.swallowed.append(self.path.partition("?")[0])
        self.server.over.wait()
        self.close_connection = True

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Swallowing]:
    with s3_server(tmp_path / "s3") as port:
        found = Swallowing()
        found.target = port
        yield found
        found.over.set()
        found.shutdown()
        found.server_close()


@pytest.mark.e2e
def test_after_requests_that_are_never_answered_another_litestream_begins_and_brings_everything(
    tmp_path: Path, proxy: Swallowing
) -> None:
    database, told = tmp_path / "p.db", []
    url = f"s3://postroom-replica/db?endpoint=http://127.0.0.1:{proxy.server_port}"
    settings = {"POSTROOM_DB": str(database), "POSTROOM_LITESTREAM_SOCKET": str(tmp_path / "l.sock")}
    prepare_database(database)

    async def scenario() -> None:
        news = asyncio.Event()

        def tell(event: str, **_: object) -> None:
            told.append(event)
            news.set()

        async def until(event: str, times: int) -> None:
            async with asyncio.timeout(60):
                while told.count(event) < times:
                    news.clear()
                    await news.wait()

        lease = lease_on(url, tmp_path / "owner", database, ENVIRONMENT, ttl_ms=4000)
        await prepare_replication(database, url, lease, ENVIRONMENT)
        supervisor = LitestreamSupervisor(
            [program(), "replicate", "-config", CONFIG_FILE], replica=url, environment=ENVIRONMENT | settings,
            database=database, control=tmp_path / "l.sock", lease=lease, report=tell,
            on_line=lambda _: None, stop_limit_s=1, pace=LookPace(every_s=0.5, behind_s=0.2, limit_s=1, still_s=3),
        )  # fmt: skip
        await supervisor.start()
        try:
            await until("replicate.begun", 1)
            first = supervisor.current_url
            proxy.until_s = time.monotonic() + SECONDS
            conn = open_connection(database)
            with transaction(conn):
                meta.put(conn, "key", "committed meanwhile")
            conn.close()
            await until("replicate.begun", 2)
            assert supervisor.current_url != first
            assert await supervisor.sync(60) is None
        finally:
            await supervisor.stop()

    asyncio.run(scenario())
    assert any("/0000/" in path for path in proxy.swallowed), "an upload of Litestream's"
    turns = ("begun", "standing_still", "litestream_ended", "litestream_started")
    happened = [event.removeprefix("replicate.") for event in told]
    assert [event for event in happened if event in turns] == [*turns, "begun"]
