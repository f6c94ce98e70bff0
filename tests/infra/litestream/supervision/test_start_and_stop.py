"""What the supervisor does before Litestream starts, and whether local state is trusted after its stop."""

import asyncio
import signal
import threading
from collections import UserDict
from collections.abc import Callable, KeysView
from pathlib import Path

import pytest

from infra.litestream import local_state
from infra.litestream.restored_files import HistoryFacts
from infra.litestream.supervisor import LitestreamSupervisor
from shared.db.engine import meta
from shared.db.engine.connection import open_connection, rows, transaction
from tests.infra.litestream.supervised import ENVIRONMENT, UNTIL_STOPPED, Started, lease_of
from tests.shared.db.engine.test_write_gate import in_a_commit

LOG_HEADER = 32  # bytes


class CalledOff(UserDict[str, str]):
    """An environment whose second reader, the start of another Litestream, is cancelled by *called*."""

    def __init__(self, call: Callable[[], None]) -> None:
        super().__init__(ENVIRONMENT)
        self._call, self._readers = call, 0

    def keys(self) -> KeysView[str]:
        self._readers += 1
        if self._readers == 2:
            self._call()
        return super().keys()


def test_a_stop_during_the_start_of_another_litestream_ends_that_one_too(tmp_path: Path, database: Path) -> None:
    argv = ["sh", "-c", f"[ -e {tmp_path}/second ] && exec sleep 300; touch {tmp_path}/second; exit 1"]

    async def stopped() -> int:
        stopping: asyncio.Future[asyncio.Task[int]] = asyncio.get_running_loop().create_future()
        supervisor = LitestreamSupervisor(
            argv, replica=f"file://{tmp_path}/replica",
            environment=CalledOff(lambda: stopping.set_result(asyncio.create_task(supervisor.stop()))),
            database=database,
            control=tmp_path / "litestream.sock", lease=lease_of(database), report=lambda *_, **__: None,
        )  # fmt: skip
        await supervisor.start()
        return await asyncio.wait_for(await asyncio.wait_for(stopping, 60), 60)

    assert asyncio.run(stopped()) == -signal.SIGKILL


def test_the_log_is_begun_before_litestream_reads_it(tmp_path: Path, database: Path) -> None:
    """Else the next writer begins it again while Litestream makes its first copy; see ``begin_log``."""
    seen = tmp_path / "seen"
    writer = open_connection(database)  # keeps the log alive, as the functions do
    with transaction(writer):
        meta.put(writer, "key", "value")
    assert writer.wal_checkpoint()[0] == writer.wal_checkpoint()[1] > 0
    before = database.with_name("postroom.db-wal").read_bytes()[:LOG_HEADER]

    async def scenario() -> None:
        async with Started(database, f"cp {database}-wal {seen}; echo up; exec sleep 60"):
            pass

    asyncio.run(scenario())
    assert seen.read_bytes()[:LOG_HEADER] != before, "the salt of another log"
    writer.close()


ENDS = {
    "in good order": ("exit 0", True),
    "with an error": ("exit 3", False),
    "in trouble": ('echo \'{"msg":"sync error"}\'; exit 0', False),
}


@pytest.mark.parametrize(("end", "is_trusted"), ENDS.values(), ids=ENDS)
def test_local_state_is_trusted_only_after_a_stop_in_good_order(database: Path, end: str, is_trusted: bool) -> None:
    async def scenario() -> None:
        async with Started(database, UNTIL_STOPPED, end):
            pass

    asyncio.run(scenario())
    assert local_state.is_trusted(database) == is_trusted


def test_local_state_is_trusted_after_a_stop_while_we_read_the_database(database: Path) -> None:
    """A renewal of the lease reads, and at a stop it is cancelled; a reader keeps the log."""
    reads, may_end = threading.Event(), threading.Event()

    def read(path: Path) -> HistoryFacts:
        if not reads.is_set():
            reader = open_connection(path, readonly=True)
            rows(reader, "SELECT key FROM meta")
            reads.set()
            may_end.wait(60)
            reader.close()
        return HistoryFacts(None, 0)

    async def scenario() -> None:
        async with Started(database, UNTIL_STOPPED, "exit 0", ttl_ms=40, read=read) as started:
            assert await asyncio.to_thread(reads.wait, 60)
            stopping = asyncio.create_task(started.supervisor.stop())
            await asyncio.wait([stopping], timeout=0.5)  # where it does not wait for the reader, it ends before
            may_end.set()
            assert await stopping == 0
            assert local_state.is_trusted(database)

    asyncio.run(scenario())


def test_local_state_is_not_trusted_after_a_death_in_a_commit_during_the_stop(tmp_path: Path, database: Path) -> None:
    """Litestream may have sent that commit in its last sync."""
    died = tmp_path / "died"
    end = f"echo ending; while [ ! -e {died} ]; do sleep 0.01; done; exit 0"

    async def scenario() -> None:
        async with Started(database, UNTIL_STOPPED, end) as started:
            with in_a_commit(database) as victim:
                stopping = asyncio.create_task(started.supervisor.stop())
                await started.until("ending")
                victim.die()
            died.touch()
            assert await stopping == 0

    asyncio.run(scenario())
    assert not local_state.is_trusted(database)
