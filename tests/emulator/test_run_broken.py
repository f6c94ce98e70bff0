import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.processes import is_alive
from tests.emulator.harness import Emulator, command


@pytest.mark.e2e
def test_without_its_fork_server_the_emulator_ends_and_says_why(emulator: Callable[..., Emulator]) -> None:
    """It can't start any function again: to stay up would be to answer 502 for ever."""
    running = emulator()
    pids = running.pids()
    named = {Path(f"/proc/{pid}/comm").read_text().strip(): pid for pid in pids}
    os.kill(named["zygote"], signal.SIGKILL)
    assert running.process.wait(15) == 69
    assert "the fork server ended with code -9" in running.output.read_text()
    assert not [pid for pid in pids if is_alive(pid)]


@pytest.mark.e2e
def test_a_bucket_that_was_deleted_begins_anew_and_a_file_that_is_no_database_is_named(
    emulator: Callable[..., Emulator], project: Path
) -> None:
    """Every start failed: Litestream looked in the bucket for what it had sent; and a traceback told of the file."""
    state = project / ".emulator"
    assert emulator("--no-watch").stop() == 0
    shutil.rmtree(state / "s3")

    running = emulator("--no-watch")
    assert running.output.read_text().count("the bucket is empty: the replica begins anew") == 1
    assert running.stop() == 0
    assert any(path.is_file() for path in (state / "s3").rglob("*")), "it is in the bucket again"

    (state / "postroom.db-wal").unlink(missing_ok=True)
    (state / "postroom.db").write_bytes(b"no database " * 500)
    refused = command(project, "run", "--port", "0", "--no-watch")
    assert refused.returncode == 65
    assert f"{state / 'postroom.db'} is not a database" in refused.stderr
    assert "Move it away, and keep it" in refused.stderr
    assert "Traceback" not in refused.stdout + refused.stderr

    (state / "postroom.db").rename(state / "postroom.db-kept")
    restored = emulator("--no-watch")
    assert restored.said("from the replica")
    assert restored.stop() == 0
