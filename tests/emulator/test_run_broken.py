import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.cli.run import first_of
from tests.emulator.harness import Emulator, command, launch, wait_gone, wait_until


@pytest.mark.e2e
def test_the_emulator_ends_with_the_reason_when_its_fork_server_ends(emulator: Callable[..., Emulator]) -> None:
    """Without the fork server it can't restart functions; it would answer 502 for ever."""
    running = emulator()
    pids = running.pids()
    named = {Path(f"/proc/{pid}/comm").read_text().strip(): pid for pid in pids}
    os.kill(named["fork-server"], signal.SIGKILL)
    assert running.process.wait(90) == 69
    assert "the fork server ended with code -9" in running.output.read_text()
    wait_gone(pids)


@pytest.mark.e2e
@pytest.mark.long
def test_a_deleted_bucket_is_filled_again_and_a_file_that_is_no_database_is_named(
    emulator: Callable[..., Emulator], project: Path
) -> None:
    """Every start once failed, because Litestream missed its files in the bucket; a bad file gave a traceback."""
    state = project / ".emulator"
    assert emulator("--no-watch").stop() == 0
    shutil.rmtree(state / "s3")

    running = emulator("--no-watch")
    assert running.output.read_text().count("the bucket is empty: the replica starts again") == 1
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


@pytest.mark.e2e
@pytest.mark.parametrize("moment", ["imports", "start"])
def test_ctrl_c_works_from_the_first_moment(project: Path, moment: str) -> None:
    """A Ctrl-C during the imports was once lost, or ended in a traceback of the fork server."""
    source = project / "emulator" / "system" / "supervisor.py"
    slow = 'import time\nfrom pathlib import Path\nPath("importing").touch()\ntime.sleep(0.5)\n'
    source.write_text(source.read_text().replace("import asyncio\n", f"{slow}import asyncio\n", 1))
    starting = launch(project, "--no-watch")
    seen = project / ("importing" if moment == "imports" else ".emulator/lock")
    try:
        wait_until(seen.exists, what=moment)
        pids = starting.pids()
        assert starting.stop() == 0
    finally:
        starting.process.kill()
    assert "Traceback" not in starting.output.read_text()
    assert '"emulator.ready"' not in starting.output.read_text()
    wait_gone(pids)


def test_work_ends_when_the_wait_for_it_is_cancelled() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("work")

    async def main() -> None:
        waiting = asyncio.create_task(first_of(work(), asyncio.get_running_loop().create_future()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        ended.append("wait")

    asyncio.run(main())
    assert ended == ["work", "wait"]


def test_a_fork_server_without_a_supervisor_ends_quietly(project: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.close()
    with theirs:
        ended = subprocess.run(
            [sys.executable, "-m", "emulator.processes.fork_server", str(theirs.fileno()), str(os.getpid())],
            cwd=project,
            pass_fds=[theirs.fileno()],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (0, "")
