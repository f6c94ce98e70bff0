"""A disk that is full, and then has room again.

There are two ways to make one. A limit on the size of files needs no rights: every write of the functions fails with
EFBIG, which is an I/O error to SQLite. A small tmpfs gives the real ENOSPC, also to Litestream and to files that grow.
It needs root and the right to mount; without them that test fails, and says how to leave it out.
"""

import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from emulator.proving.child import until
from emulator.proving.host import Post
from emulator.proving.platform import OK, TAKEN_LOST, Platform, Written, lines
from tests.e2e.crash import invariants
from tests.e2e.crash.conftest import Make

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.crash]

CHATS = [str(chat) for chat in range(100, 112)]


def fill_by_limit(post: Post, dice: random.Random) -> Callable[[], None]:
    """No function can write files beyond some size; the call that undoes it."""
    wal = post.db.with_name("postroom.db-wal").stat().st_size
    filled = ExitStack()
    filled.enter_context(post.full_disk(dice.choice([0, wal // 2, wal + 4096])))
    return filled.close


def fill_by_ballast(post: Post, dice: random.Random) -> Callable[[], None]:
    """The file system has no byte left; the call that undoes it."""
    ballast = post.data / "ballast"
    with ballast.open("ab", buffering=0) as file:
        for size in (1 << 20, 1 << 16, 1 << 12):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return ballast.unlink


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[None]:
    """Mount a small file system at *folder*."""
    folder.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True)
    if mount.returncode != 0:
        said = mount.stderr.decode().strip()
        pytest.fail(
            f"a disk without a byte left needs root, and the right to mount a tmpfs ({said}): give it both, or "
            f"leave this file out, PYTEST_ADDOPTS='--ignore=tests/e2e/crash/test_disk.py'"
        )
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill_and_free(post: Post, platform: Platform, dice: random.Random, fill: Callable, *, rounds: int) -> None:
    """People write all the time. While the disk is full, no message is acknowledged."""
    texts = lines(CHATS[1:], 12 * rounds, lambda dice: dice.choice(["ok:0.02", "ok:0.3", "fail ok"]), dice)
    with platform.people(post.port("ingest"), texts, pace_s=0.1) as crowd:
        for number in range(rounds):
            time.sleep(dice.uniform(0.5, 1.5))
            free = fill(post, dice)
            written = refused(post, platform, number)
            if number % 2:
                post.kill("dispatch")
                post.kill("ingest")
            time.sleep(dice.uniform(0.5, 3.0))
            free()
            until(
                "the refused message to be accepted",
                lambda w=written: platform.deliver(w, post.port("ingest"))[0] == 200,
            )
        until("every message to be accepted", lambda: crowd.is_done, 60)
    post.settle(60)


def refused(post: Post, platform: Platform, number: int) -> Written:
    """The first message that is refused; there may be several before it, because a WAL that was longer has room."""
    for attempt in range(2000):
        written = platform.write("100", f"c100 {number:02}{attempt:04} | ok")
        status, headers = platform.deliver(written, post.port("ingest"))
        if status != 200:
            assert status == 503
            assert headers["retry-after"]
            return written
    pytest.fail("the disk is full, and ingest accepts every message")


@pytest.fixture
def some_doubt(platform: Platform) -> None:
    """The platform accepts some messages without an answer."""
    platform.plan = lambda text, attempt: (TAKEN_LOST, 0.0) if text.endswith("5") and attempt == 1 else (OK, 0.0)


@pytest.mark.usefixtures("some_doubt")
def test_functions_that_cannot_write_refuse_and_continue_when_they_can(
    make_post: Make, platform: Platform, dice: random.Random, scale: float, tmp_path: Path
) -> None:
    post = make_post(replica="file")
    post.prepare({"many": 8}, dict.fromkeys(CHATS, "many"))
    post.start()

    fill_and_free(post, platform, dice, fill_by_limit, rounds=int(3 * scale))

    invariants.check(post, all_completed=True)
    invariants.check_replica(post, tmp_path)


@pytest.mark.usefixtures("some_doubt")
def test_a_file_system_without_a_byte_left_loses_nothing_and_replicates_again(
    make_post: Make, platform: Platform, dice: random.Random, scale: float, tmp_path: Path
) -> None:
    small = tmp_path / "small"
    with mounted(small, "48m"):
        post = make_post(replica="file", data=small)
        post.prepare({"many": 8}, dict.fromkeys(CHATS, "many"))
        post.start()

        fill_and_free(post, platform, dice, fill_by_ballast, rounds=int(2 * scale))

        invariants.check(post, all_completed=True)
        invariants.check_replica(post, tmp_path)
