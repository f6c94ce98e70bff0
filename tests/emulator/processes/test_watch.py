"""Saved files of functions are reported; other files are not."""

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest

from emulator.processes.watch import changes


def test_a_python_file_beside_the_template_is_ignored(tmp_path: Path) -> None:
    """A person's own agent.py once reloaded every function and repeated turns."""
    names = ("template.yaml", ".env", "agent.py", "functions/sweep.py")
    template, settings, agent, function = (tmp_path / name for name in names)
    function.parent.mkdir()

    async def seen() -> set[Path]:
        stop, found = asyncio.Event(), set[Path]()

        async def look() -> None:
            async for saved in changes(tmp_path, template, stop, since_s=time.time()):
                found.update(saved)

        looking = asyncio.create_task(look())
        async with asyncio.timeout(60):
            while not {template, settings, function} <= found:
                for path in (agent, template, settings, function):
                    path.write_text("# saved\n")
                await asyncio.sleep(0.05)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        return found

    assert asyncio.run(seen()) == {template, settings, function}


def test_what_was_saved_during_the_start_is_reported_first(tmp_path: Path) -> None:
    """The emulator loads code at the beginning of its start, and watches the files when it is ready."""
    template, settings = tmp_path / "template.yaml", tmp_path / ".env"
    older, newer, other = (tmp_path / "shared" / "deep" / name for name in ("older.py", "newer.sql", "newer.txt"))
    older.parent.mkdir(parents=True)
    for path, saved_s in ((template, 99), (settings, 100), (older, 99), (newer, 100), (other, 100)):
        path.touch()
        os.utime(path, (saved_s, saved_s))

    async def first() -> set[Path]:
        async with asyncio.timeout(60):
            return await anext(changes(tmp_path, template, asyncio.Event(), since_s=100))

    assert asyncio.run(first()) == {settings, newer}


def test_a_failed_watch_raises_its_error(tmp_path: Path) -> None:
    """A machine without free watches (inotify's limit) once reloaded nothing, without any message."""

    async def look() -> None:
        async with asyncio.timeout(60):
            async for _ in changes(tmp_path, tmp_path / "gone" / "template.yaml", asyncio.Event(), since_s=0):
                raise AssertionError("nothing was saved")

    with pytest.raises(FileNotFoundError):
        asyncio.run(look())


def test_a_watch_that_ends_later_raises_its_error_too(tmp_path: Path) -> None:
    """A new folder may be one too many for the system. From then on no saved file was seen, without any message."""

    class Failing(asyncio.Event):
        def is_set(self) -> bool:
            if threading.current_thread() is not threading.main_thread():  # in the thread that watches
                raise RuntimeError("no space left for a watch")
            return super().is_set()

    async def look() -> None:
        async with asyncio.timeout(60):
            async for _ in changes(tmp_path, tmp_path / "template.yaml", Failing(), since_s=time.time()):
                raise AssertionError("nothing was saved")

    with pytest.raises(OSError, match="no space left for a watch"):
        asyncio.run(look())
