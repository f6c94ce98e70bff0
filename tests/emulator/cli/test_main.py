"""What the console script loads before the fork server starts, which loads longest of all."""

import subprocess
import sys

LOADED = "import sys, emulator.cli.main as _; print(*sorted({name.partition('.')[0] for name in sys.modules}))"


def test_slow_libraries_are_imported_after_the_fork_server_has_started() -> None:
    """What is loaded at the top delays every other process: asyncio by a twentieth of a second, aiohttp by a tenth."""
    loaded = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True).stdout.split()

    assert "emulator" in loaded
    assert {"aiohttp", "apsw", "asyncio", "pydantic", "moto", "obstore", "structlog", "typer", "yaml"} & set(
        loaded
    ) == set()
