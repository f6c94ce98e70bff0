"""What is saved and concerns a function is seen; what lies beside it is not."""

import asyncio
from pathlib import Path

import pytest

from emulator.processes.watch import changes


def test_a_file_beside_the_template_is_no_function(tmp_path: Path) -> None:
    """A person's own agent.py reloaded every function, and ran turns again."""
    template, agent, function = (tmp_path / name for name in ("template.yaml", "agent.py", "functions/sweep.py"))
    function.parent.mkdir()

    async def seen() -> set[Path]:
        stop, found = asyncio.Event(), set[Path]()

        async def look() -> None:
            async for saved in changes(tmp_path, template, stop):
                found.update(saved)

        looking = asyncio.create_task(look())
        async with asyncio.timeout(60):
            while not {template, function} <= found:
                for path in (agent, template, function):
                    path.write_text("# saved\n")
                await asyncio.sleep(0.05)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        return found

    assert asyncio.run(seen()) == {template, function}


def test_a_watch_that_can_not_be_kept_says_so(tmp_path: Path) -> None:
    """A machine that had no watches left (inotify's limit) reloaded nothing, and nobody heard of it."""

    async def look() -> None:
        async with asyncio.timeout(60):
            async for _ in changes(tmp_path, tmp_path / "gone" / "template.yaml", asyncio.Event()):
                raise AssertionError("nothing was saved")

    with pytest.raises(FileNotFoundError):
        asyncio.run(look())
