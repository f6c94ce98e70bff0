"""A saved file that can't be used is reported, and the emulator continues."""

import asyncio
import io
from pathlib import Path
from types import SimpleNamespace

from emulator.base import environment
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


def test_settings_that_cant_be_used_do_not_hold_back_the_code_saved_with_them(tmp_path: Path) -> None:
    """A checkout saves many files at once."""
    told, stop, replaced = io.StringIO(), asyncio.Event(), list[str]()
    options = RunOptions(tmp_path, tmp_path / "template.yaml", StateFolder(tmp_path / "state"))
    (tmp_path / ".env").write_text("this is no setting\n")
    code = tmp_path / "functions" / "sweep.py"
    code.parent.mkdir()
    code.touch()

    async def reload(names: list[str], *, because: str) -> None:
        replaced.append(f"{names} because of {because}")
        stop.set()

    of = [SimpleNamespace(name=name, spec=SimpleNamespace(source=f"functions/{name}.py")) for name in ("sweep", "api")]
    components = SimpleNamespace(
        options=options,
        read_files=lambda: environment.read_files(tmp_path),
        functions=SimpleNamespace(all=of, reload=reload),
    )

    async def watch() -> None:
        async with asyncio.timeout(60):
            await Reloader(components, None, Console("json", told)).run(stop, since_s=0)  # type: ignore[arg-type]

    asyncio.run(watch())
    assert len(replaced) == 1
    assert replaced[0].startswith("['sweep'] because of ")
    assert ".env:1: expected NAME=value" in told.getvalue()
