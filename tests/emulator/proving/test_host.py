"""The host of a run: when it is stuck, and what a disk that does not come back leaves for the ledger."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.base.errors import Misconfigured
from emulator.proving import promises
from emulator.proving.host import Post, Stall, restore
from emulator.proving.platform import Platform


@pytest.fixture
def post(tmp_path: Path) -> Iterator[Post]:
    """A host with a database, of which the bucket alone runs."""
    platform = Platform()
    post = Post(tmp_path / "host", platform, replica="s3", functions=(), ticks=False)
    try:
        post.prepare({"many": 8}, {"100": "many"})
        post["s3"].start()
        yield post
    finally:
        post.close()
        platform.close()


def test_after_a_disk_that_is_not_restored_the_ledger_says_what_is_lost(post: Post) -> None:
    written = post.platform.write("100", "c100 0000 | ok")
    written.accepted = True
    (post.record / "turns").write_text(
        '{"what": "start", "run": "r", "session": "s", "agent": "many", "ids": ["telegram_1"], "at_ns": 1}\n'
        '{"what": "end", "act": "ok", "run": "r", "session": "s", "agent": "many", "ids": ["telegram_1"], "at_ns": 2}\n'
    )
    post["litestream"].environment["POSTROOM_REPLICA_URL"] = "nowhere"
    with pytest.raises(Misconfigured, match=r"the replica was not restored: .*restore\.refused"):
        post.lose_disk()
    assert promises.problems_of(post.witnesses()) == [
        "lost: 'c100 0000 | ok' was acknowledged ([]), and it is not stored"
    ]


def test_a_restore_that_does_not_end_is_one_that_failed() -> None:
    assert restore({}, limit_s=0.01) == (False, "it did not end within 0.01 s\n")


def test_what_is_slow_is_not_stuck_and_what_goes_back_and_forth_is() -> None:
    """By the counts of what is open, at these seconds."""
    stall = Stall()
    looks = [(5, 100.0), (4, 250.0), (4, 300.0), (3, 420.0), (4, 500.0), (3, 600.0), (2, 601.0)]
    assert [stall.lasts_s(count, now_s) for count, now_s in looks] == [0.0, 0.0, 50.0, 0.0, 80.0, 180.0, 0.0]
