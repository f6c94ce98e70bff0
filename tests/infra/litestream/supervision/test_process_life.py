"""A doubt kills the Litestream that runs, and is forgotten when another one runs."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from infra.litestream.launch import LitestreamLaunch
from infra.litestream.supervision.doubt import Doubt
from infra.litestream.supervision.process_life import LitestreamLife
from shared.db.replica import sync_permit

SCRIPT = 'echo "$POSTROOM_REPLICA_URL"; exec sleep 60'


class Lived:
    """A life of scripts in the place of Litestream, and what came of it."""

    def __init__(self, folder: Path) -> None:
        self.told: list[str] = []
        self.doubts: list[Doubt] = []
        self.said: asyncio.Queue[str] = asyncio.Queue()
        self.control = folder / "l.sock"
        launch = LitestreamLaunch(
            ["sh", "-c", SCRIPT], {"PATH": os.environ["PATH"]}, folder / "postroom.db", self.control
        )
        self.life = LitestreamLife(
            launch, lambda: f"s3://b/{len(self.doubts)}", make_way=self._make_way, on_start=lambda: None,
            report=lambda event, **_: self.told.append(event), on_line=self.said.put_nowait,
        )  # fmt: skip

    async def _make_way(self, doubt: Doubt) -> None:
        self.doubts.append(doubt)


def live(folder: Path, test: Callable[[Lived], Awaitable[None]]) -> Lived:
    async def go() -> Lived:
        lived = Lived(folder)
        await lived.life.begin(None)
        running = asyncio.create_task(lived.life.keep_running())
        assert await asyncio.wait_for(lived.said.get(), 20) == "s3://b/0"
        await test(lived)
        lived.life.end()
        lived.life.kill()
        await asyncio.wait_for(running, 20)
        return lived

    return asyncio.run(go())


@pytest.mark.parametrize("doubt", [each for each in Doubt if each not in (Doubt.NONE, Doubt.CANT_READ)])
def test_a_doubted_litestream_is_killed_and_the_next_one_is_trusted(tmp_path: Path, doubt: Doubt) -> None:
    async def test(lived: Lived) -> None:
        sync_permit.grant(lived.control, sync_permit.now_s() + 60)
        lived.life.hold(doubt, "it is said")
        assert not sync_permit.is_valid(lived.control)
        assert await asyncio.wait_for(lived.said.get(), 20) == "s3://b/1"
        assert lived.life.doubt is Doubt.NONE

    lived = live(tmp_path, test)
    assert lived.doubts == [doubt]
    assert lived.told == ["replicate.doubtful", "replicate.litestream_ended", "replicate.litestream_started"]


def test_of_two_doubts_the_greater_one_counts_and_each_is_told_once(tmp_path: Path) -> None:
    async def test(lived: Lived) -> None:
        for doubt in (Doubt.SAID_TROUBLE, Doubt.TORN_COMMIT, Doubt.SAID_TROUBLE, Doubt.TORN_COMMIT):
            lived.life.hold(doubt, "it is said")
        assert await asyncio.wait_for(lived.said.get(), 20) == "s3://b/1"

    lived = live(tmp_path, test)
    assert lived.doubts == [Doubt.TORN_COMMIT]
    assert lived.told.count("replicate.doubtful") == 2


def test_a_litestream_that_cant_read_is_stopped_and_functions_do_not_rely_on_it(tmp_path: Path) -> None:
    async def test(lived: Lived) -> None:
        sync_permit.grant(lived.control, sync_permit.now_s() + 60)
        await lived.life.stop_unreadable()
        assert not sync_permit.is_valid(lived.control)
        assert await asyncio.wait_for(lived.said.get(), 20) == "s3://b/1"

    assert live(tmp_path, test).doubts == [Doubt.CANT_READ]


def test_at_the_end_a_doubt_kills_nothing_so_that_litestream_makes_its_last_sync(tmp_path: Path) -> None:
    async def test(lived: Lived) -> None:
        lived.life.end()
        lived.life.hold(Doubt.SAID_TROUBLE, "it is said")
        assert lived.life.pid is not None
        assert lived.life.doubt is Doubt.SAID_TROUBLE

    assert live(tmp_path, test).told == []


def test_none_follows_while_none_may(tmp_path: Path) -> None:
    async def test(lived: Lived) -> None:
        lived.life.may_follow.clear()
        lived.life.hold(Doubt.TORN_COMMIT)
        while "replicate.litestream_ended" not in lived.told:  # noqa: ASYNC110 - it is told by the life
            await asyncio.sleep(0.01)
        assert lived.doubts == []
        lived.life.may_follow.set()
        assert await asyncio.wait_for(lived.said.get(), 20) == "s3://b/1"

    live(tmp_path, test)
