"""A saved file that can't be used is reported, and the emulator continues."""

import asyncio
import io
from pathlib import Path
from types import SimpleNamespace

from emulator.base.console import Console
from emulator.base.options import RunOptions
from emulator.base.state import StateFolder
from emulator.system.reload import Reloader


def test_a_failure_to_watch_files_is_reported_and_does_not_end_the_emulator(tmp_path: Path) -> None:
    """The system limits the number of watched files, and editors use them too."""
    told = io.StringIO()
    options = RunOptions(tmp_path, tmp_path / "gone" / "template.yaml", StateFolder(tmp_path / "state"))

    async def watch() -> None:
        async with asyncio.timeout(60):
            reloader = Reloader(SimpleNamespace(options=options), None, Console("json", told))  # type: ignore[arg-type]
            await reloader.run(asyncio.Event(), since_s=0)

    asyncio.run(watch())
    assert "saved files can no longer be watched" in told.getvalue()
