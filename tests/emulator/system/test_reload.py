"""What is saved and can't be taken over is said, and the emulator goes on."""

import asyncio
import io
from pathlib import Path
from types import SimpleNamespace

from emulator.base.console import Console
from emulator.base.options import RunOptions
from emulator.base.state import StateFolder
from emulator.system.reload import Reload


def test_when_nothing_can_be_watched_it_is_said_and_all_else_goes_on(tmp_path: Path) -> None:
    """It would have ended the emulator: a machine has only so many watches, and editors take them."""
    told = io.StringIO()
    options = RunOptions(tmp_path, tmp_path / "gone" / "template.yaml", StateFolder(tmp_path / "state"))

    async def watch() -> None:
        async with asyncio.timeout(60):
            await Reload(SimpleNamespace(options=options), None, Console("json", told)).run(asyncio.Event())  # type: ignore[arg-type]

    asyncio.run(watch())
    assert "what is saved is not seen any more" in told.getvalue()
