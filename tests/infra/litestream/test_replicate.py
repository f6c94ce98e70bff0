"""``infra.replicate`` with the real Litestream: what follows the end of one, and which prefix the next one writes."""

import os
import signal
import sys
from pathlib import Path

import pytest

from shared.db.engine import meta
from shared.db.engine.connection import open_connection, transaction
from tests.infra.litestream.supervised import Replicating
from tests.infra.processes import Process, until


def test_a_killed_litestream_is_followed_by_another_under_a_new_prefix(replicating: Replicating) -> None:
    replicating.make_the_log_long()
    first, (child,) = replicating.prefix, replicating.litestream()
    os.kill(child, signal.SIGKILL)
    replicating.process.wait_for("replicate.litestream_ended")
    replicating.begin_the_log_anew()
    until(lambda: [pid for pid in replicating.litestream() if pid != child], "another Litestream")

    assert replicating.restored() == replicating.live()
    assert replicating.prefix != first


def test_a_kill_of_everything_is_followed_by_a_full_copy(replicating: Replicating) -> None:
    replicating.make_the_log_long()
    first = replicating.prefix
    for pid in (*replicating.litestream(), replicating.process.pid):
        os.kill(pid, signal.SIGKILL)
    replicating.process.end()
    replicating.begin_the_log_anew()
    replicating.start()

    assert replicating.restored() == replicating.live()
    assert replicating.prefix != first


def test_a_good_stop_beside_a_writer_is_followed_by_a_full_copy(replicating: Replicating) -> None:
    replicating.make_the_log_long()
    first = replicating.prefix
    assert replicating.process.stop(signal.SIGTERM)[0] == 0
    replicating.begin_the_log_anew()
    replicating.start()

    assert replicating.restored() == replicating.live()
    assert replicating.prefix != first


def test_another_litestream_starts_when_the_bucket_is_back(replicating: Replicating, tmp_path: Path) -> None:
    replicating.sync()
    (child,) = replicating.litestream()
    (tmp_path / "replica").rename(tmp_path / "away")
    (tmp_path / "replica").touch()
    os.kill(child, signal.SIGKILL)
    assert replicating.process is not None
    replicating.process.wait_for("replicate.waiting")
    replicating.write("meanwhile")
    (tmp_path / "replica").unlink()
    (tmp_path / "away").rename(tmp_path / "replica")

    assert replicating.restored() == replicating.live()


@pytest.mark.parametrize("kilobytes", [1, 100])
def test_after_a_good_stop_of_everything_litestream_goes_on_under_the_same_prefix(
    replicating: Replicating, kilobytes: int
) -> None:
    replicating.make_the_log_long()
    first = replicating.prefix
    replicating.writer.close()
    assert replicating.process.stop(signal.SIGTERM)[0] == 0
    replicating.writer = open_connection(replicating.database)
    for number in range(kilobytes):  # a log that is shorter than the old one, or longer
        with transaction(replicating.writer):
            meta.put(replicating.writer, f"meanwhile {number}", "y" * 1000)
    replicating.start()

    assert replicating.restored() == replicating.live()
    assert replicating.prefix == first


def test_a_missing_setting_is_named() -> None:
    process = Process(sys.executable, "-m", "infra.replicate", environment={"POSTROOM_DB": "x.db"})
    try:
        (refused,) = process.wait_for("replicate.refused")
        assert "POSTROOM_REPLICA_URL is not set" in refused["reason"]
        assert process.end() == 78
    finally:
        process.close()
