"""Litestream's yes is acknowledged only while ``lease.json`` sends restores to where Litestream writes."""

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.litestream.lease import Lease, LeaseLost
from infra.litestream.lease_owner import LeaseOwner
from infra.litestream.restored_files import read_facts
from infra.litestream.supervisor import LitestreamSupervisor
from shared.core.errors import NotReplicated
from shared.core.settings import Settings
from shared.db.replica import sync_permit
from shared.db.replica.folder_store import FolderStore
from shared.db.replica.lease_record import ReplicaPrefix
from shared.db.replica.object_store import open_store
from shared.db.replica.stored_objects import StoreUnreachable
from shared.db.replica.sync import Replication
from shared.roster.new_database import prepare_database
from tests.e2e.crash.test_s3 import ERROR, XML, Faulty, _Proxied
from tests.emulator.storage.test_s3_server import ENVIRONMENT, s3_server
from tests.infra.litestream.supervised import synced
from tests.infra.litestream.test_two_machines import Machine, began, machines  # noqa: F401 - one is a fixture
from tests.infra.processes import until
from tests.liveness import freeze

PREFIX = ReplicaPrefix("epoch_x", "epoch_x", "owner_one", 1)


class Holding(Faulty):
    """A proxy before S3 that can hold back or refuse writes of ``lease.json``, and passes all else."""

    def __init__(self) -> None:
        super().__init__()
        self.RequestHandlerClass = _Held
        self.holds: Callable[[dict[str, object]], bool] = lambda there: False
        self.refuses = False
        self.held = threading.Event()
        self.goes_on = threading.Event()


class _Held(_Proxied):
    server: Holding

    def handle_any(self) -> None:
        if self.command != "PUT" or not self.path.partition("?")[0].endswith("/lease.json"):
            super().handle_any()
            return
        body = self._body()
        if self.server.refuses:
            self._answer(503, XML, ERROR)
            return
        if self.server.holds(json.loads(body)):
            self.server.held.set()
            self.server.goes_on.wait()
            self.close_connection = True  # it never came to the store
            return
        self._done("well", *self._pass_on(body))

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Holding]:
    with s3_server(tmp_path / "s3") as port:
        holding = Holding()
        holding.target = port
        yield holding
        holding.goes_on.set()
        holding.shutdown()
        holding.server_close()


@pytest.fixture
def url(proxy: Holding) -> str:
    return f"s3://postroom-replica/db?endpoint=http://127.0.0.1:{proxy.server_port}"


def socket_of(machine: Machine) -> Path:
    return Path(machine.environment["POSTROOM_LITESTREAM_SOCKET"])


def is_acknowledged(machine: Machine) -> bool:
    """Whether ingest, after its wait for the replica, may answer 2xx for the rows in the database."""

    async def confirm() -> bool:
        settings = {"db": machine.database, "litestream_socket": socket_of(machine), "durability": "replicated"}
        replication = Replication(Settings.model_construct(**settings), ())
        try:
            await replication.confirm("api")
        except NotReplicated:
            return False
        finally:
            await replication.close()
        return True

    return asyncio.run(confirm())


def acknowledge(machine: Machine, rows: int) -> None:
    """Start it, and wait until it acknowledges its first rows."""
    machine.restore()
    machine.replicate()
    machine.write(rows)
    until(lambda: is_acknowledged(machine), "the acknowledgement")


def litestream_says_yes(machine: Machine) -> bool:
    return synced(socket_of(machine), machine.database)


@pytest.mark.e2e
@pytest.mark.long
def test_nothing_is_acknowledged_before_the_first_prefix_has_a_full_copy(
    machines: tuple[Machine, Machine],  # noqa: F811
    proxy: Holding,
) -> None:
    one, _ = machines
    proxy.holds = lambda there: there["is_begun"] is True
    one.restore()
    one.replicate()
    one.write(1)
    assert proxy.held.wait(20)
    until(lambda: litestream_says_yes(one), "Litestream's yes")

    assert not is_acknowledged(one)

    proxy.holds = lambda there: False
    proxy.goes_on.set()
    until(lambda: is_acknowledged(one), "the acknowledgement")


@pytest.mark.e2e
@pytest.mark.long
def test_nothing_is_acknowledged_between_a_bad_end_of_litestream_and_the_next_full_copy(
    machines: tuple[Machine, Machine],  # noqa: F811
    proxy: Holding,
    url: str,
) -> None:
    one, two = machines
    acknowledge(one, 3)
    first = began(open_store(url, ENVIRONMENT)).current

    proxy.holds = lambda there: there["is_begun"] is True and there["place"]["prefix"] != first.path
    os.kill(one.litestream(), signal.SIGKILL)
    one.supervisor.wait_for("replicate.litestream_started")
    assert proxy.held.wait(20)
    one.write(2)
    until(lambda: litestream_says_yes(one), "Litestream's yes")
    assert not is_acknowledged(one)

    one.supervisor.close()
    proxy.holds = lambda there: False
    proxy.goes_on.set()
    assert two.restore("--wait", "15s")[0] == 0
    assert read_facts(two.database).newest_event_id == 5, "a restore at that moment reads the new prefix"


@pytest.mark.e2e
@pytest.mark.long
def test_nothing_is_acknowledged_under_a_supervisor_that_was_frozen_during_a_takeover(
    machines: tuple[Machine, Machine],  # noqa: F811
) -> None:
    """Litestream goes on under it, at a prefix that the other machine has restored before."""
    one, two = machines
    acknowledge(one, 3)

    freeze(one.supervisor.pid)
    assert two.restore("--wait", "15s")[0] == 0
    one.write(2)
    until(lambda: litestream_says_yes(one), "Litestream's yes")
    assert read_facts(two.database).newest_event_id == 3

    assert not is_acknowledged(one)
    os.kill(one.supervisor.pid, signal.SIGCONT)
    assert one.supervisor.end() == 73
    assert not is_acknowledged(one)


@pytest.mark.e2e
@pytest.mark.long
def test_nothing_is_acknowledged_when_the_lease_has_run_out(
    machines: tuple[Machine, Machine],  # noqa: F811
    proxy: Holding,
) -> None:
    one, _ = machines
    acknowledge(one, 1)

    proxy.refuses = True
    until(lambda: not is_acknowledged(one), "the end of acknowledgements")
    assert litestream_says_yes(one)

    proxy.refuses = False
    until(lambda: is_acknowledged(one), "the acknowledgement")
    assert one.supervisor.events("replicate.litestream_ended") == []
    assert one.supervisor.stop(signal.SIGTERM)[0] == 0
    assert not sync_permit.is_valid(socket_of(one)), "the lease was given back"


class Away(FolderStore):
    """A store whose writes are slow, or fail while it is away."""

    is_away = False

    def put(self, name: str, body: bytes, *, replacing: str | None) -> str:
        if self.is_away:
            raise StoreUnreachable("away")
        time.sleep(0.05)
        return super().put(name, body, replacing=replacing)


def test_the_lease_counts_from_before_its_write(tmp_path: Path) -> None:
    store = Away(tmp_path / "replica")
    one, other = (Lease(store, LeaseOwner("owner_one", "host", "/data/postroom.db"), 60_000) for _ in range(2))

    before = sync_permit.now_s()
    asyncio.run(one.take())
    assert before + 60 <= one.until_s < sync_permit.now_s() + 59.96

    store.is_away = True
    renewed = one.until_s
    with pytest.raises(StoreUnreachable):
        asyncio.run(one.renew(newest_event_id=0))
    assert one.until_s == renewed
    store.is_away = False
    asyncio.run(one.renew(newest_event_id=0))
    assert one.until_s > renewed + 0.04

    renewed = one.until_s
    asyncio.run(other.take())
    with pytest.raises(LeaseLost):
        asyncio.run(one.renew(newest_event_id=0))
    assert one.until_s == renewed
    asyncio.run(other.release())
    assert other.until_s == 0


HOLE = (
    '{"level":"ERROR","msg":"compaction failed","level":1,"error":"write ltx file: extract timestamp from LTX header: '
    'non-contiguous transaction ids in input files: (5,5) -> (7,7)"}'
)
SCRIPT = 'read -r said < "$0"; echo "$said"; test "$said" = "an end" || exec sleep 60'


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('{"msg":"sync error"}', [("replicate.doubtful", True), ("replicate.litestream_ended", False)]),
        (HOLE, [("replicate.doubtful", True), ("replicate.litestream_ended", False)]),
        ("an end", [("replicate.litestream_ended", True)]),  # nothing answers any more
    ],
)
def test_the_permit_is_revoked_before_another_litestream_and_granted_after_its_full_copy(
    tmp_path: Path, said: str, told: list[tuple[str, bool]]
) -> None:
    database, control, pipe = tmp_path / "postroom.db", tmp_path / "l.sock", tmp_path / "pipe"
    prepare_database(database)
    os.mkfifo(pipe)
    found: list[tuple[str, bool]] = []

    async def go() -> None:
        lease = Lease(FolderStore(tmp_path / "replica"), LeaseOwner("owner_one", "host", str(database)), 60_000)
        await lease.take()
        await lease.begin_prefix(PREFIX, None)
        again = asyncio.Event()

        def tell(event: str, **_: object) -> None:
            if event == "replicate.litestream_ended":
                supervisor.upkeep.grant()  # the lease is renewed at any moment
            found.append((event, sync_permit.is_valid(control)))
            if event == "replicate.litestream_started":
                again.set()

        supervisor = LitestreamSupervisor(
            ["sh", "-c", SCRIPT, str(pipe)],
            replica=f"file://{tmp_path}/replica",
            environment={"PATH": os.environ["PATH"]},
            database=database,
            control=control,
            lease=lease,
            report=tell,
            on_line=lambda _: None,
        )
        await supervisor.start()
        assert not sync_permit.is_valid(control), "it has no full copy yet"
        await lease.note_full_copy(PREFIX, "epoch_x")
        assert await supervisor.upkeep.renew() is None
        assert sync_permit.is_valid(control)
        (tmp_path / "l.sock.permit.tmp").mkdir()
        assert "the sync permit can't be written" in (await supervisor.upkeep.renew() or "")
        (tmp_path / "l.sock.permit.tmp").rmdir()
        saying = asyncio.create_task(asyncio.to_thread(pipe.write_text, f"{said}\n"))
        await asyncio.wait_for(again.wait(), 20)
        await saying
        assert await supervisor.upkeep.renew() is None
        assert not sync_permit.is_valid(control), "the new prefix has no full copy yet"
        await lease.note_full_copy(lease.record.current, "epoch_x")
        assert await supervisor.upkeep.renew() is None
        assert sync_permit.is_valid(control)
        await supervisor.stop()
        assert not sync_permit.is_valid(control)

    asyncio.run(go())
    assert found == [*told, ("replicate.litestream_started", False)]
