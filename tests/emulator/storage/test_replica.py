"""A replication that stops is reported, and so is its return; a running process proves nothing."""

import asyncio
import os
import signal
from pathlib import Path

import apsw
import pytest

from emulator.base import ports
from emulator.base.environment import DUMMY_AWS
from emulator.storage import replica
from emulator.storage.s3_process import S3Process
from infra.litestream import lease_on, prepare_replication
from shared.roster.new_database import prepare_database
from tests.emulator.harness import ROOT

ENVIRONMENT = {"PATH": os.environ["PATH"]} | DUMMY_AWS


@pytest.mark.e2e
def test_an_unreachable_bucket_is_reported_once_and_so_is_its_return(tmp_path: Path) -> None:
    said: list[str] = []

    def about_replication() -> list[str]:
        """Without the sentences about the lease, whose renewal may fall into the same moment."""
        return [text for text in said if text.startswith("replication")]

    async def scenario() -> None:
        sock = ports.listen(0).sock
        store = S3Process(
            folder=tmp_path / "s3", sock=sock, project=ROOT, environment=ENVIRONMENT, faults=tmp_path / "faults.json",
            on_line=lambda _: None, on_trouble=said.append,
        )  # fmt: skip
        await store.start()
        await store.wait_ready()
        database = tmp_path / "postroom.db"
        prepare_database(database)
        url = replica.url(sock.getsockname()[1])
        lease = lease_on(url, tmp_path / "owner.json", database, ENVIRONMENT)
        await prepare_replication(database, url, lease, ENVIRONMENT)
        litestream = replica.EmulatorLitestream(
            database=database, replica=url, run=tmp_path, lease=lease, environment=ENVIRONMENT,
            on_line=lambda _: None, on_trouble=said.append,
        )  # fmt: skip
        try:
            await litestream.start_ready()
            await litestream.look()
            assert (said, litestream.is_behind) == ([], False)

            os.kill(store.pid or 0, signal.SIGSTOP)
            apsw.Connection(str(database)).execute("INSERT INTO meta VALUES ('written', 'meanwhile')")
            await litestream.look(1.0)
            await litestream.look(1.0)
            assert litestream.is_behind
            assert [text.partition(":")[0] for text in about_replication()] == ["replication is behind"]

            os.kill(store.pid or 0, signal.SIGCONT)
            await litestream.look(90.0)
            assert about_replication()[1:] == ["replication has caught up"]
        finally:
            await litestream.stop()
            await store.stop()

    asyncio.run(scenario())
