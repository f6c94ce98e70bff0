"""A database that another program locks for longer than any timeout."""

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from emulator.proving.child import until
from emulator.proving.platform import Platform, lines
from tests.e2e.crash import invariants
from tests.e2e.crash.conftest import Make

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.crash]

HELD_S = 13
HOLDS = {
    "transaction": "import apsw; c = apsw.Connection(path); c.set_busy_timeout(9999); c.execute('BEGIN IMMEDIATE')",
    "gate": "import fcntl; f = open(path + '-gate', 'a'); fcntl.flock(f, fcntl.LOCK_EX)",
}


@contextmanager
def held(database: Path, how: str) -> Iterator[None]:
    """Another program holds the lock during the block."""
    code = f"import sys; path = sys.argv[1]; {HOLDS[how]}; print('held', flush=True); sys.stdin.read()"
    argv = [sys.executable, "-c", code, database]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.kill()


@pytest.mark.parametrize("how", HOLDS)
def test_a_database_locked_by_another_program_stops_everything_and_breaks_nothing(
    how: str, make_post: Make, platform: Platform, dice: random.Random
) -> None:
    post = make_post()
    chats = [str(chat) for chat in range(100, 110)]
    post.prepare({"many": 8}, dict.fromkeys([*chats, "99"], "many"))
    post.start()
    texts = lines(chats, 10, lambda dice: dice.choice(["ok:0.02", "ok:1", "fail ok"]), dice)

    with platform.people(post.port("ingest"), texts, pace_s=0.05) as crowd:
        until("turns to be under way", lambda: len(invariants.journal(post)) > 5)
        with held(post.db, how):
            time.sleep(0.5)  # earlier commits are acknowledged by now
            accepted = [text for text, written in platform.written.items() if written.accepted]
            begun = time.monotonic()
            status, headers = platform.deliver(platform.write("99", "c99 0000 | ok"), post.port("ingest"))
            assert (status, headers.get("retry-after")) == (503, "5")
            time.sleep(max(0, HELD_S - (time.monotonic() - begun)))
            late = [text for text, written in platform.written.items() if written.accepted and text not in accepted]
            assert not late, "ingest acknowledged messages that it could not store"
        free = time.monotonic()
        until("every message to be accepted", lambda: crowd.is_done, 30)
    post.settle(30)

    print(f"finished {time.monotonic() - free:.1f} s after")
    invariants.check(post, all_completed=True)
    statuses = {status for written in platform.written.values() for status in written.statuses}
    assert statuses == {200, 503}, "some answers were neither 200 nor 503"
    assert {name: child.starts for name, child in post.children.items()} == dict.fromkeys(post.children, 1)
