"""The supervisor's own module loads fast, so that the fork server and S3 start early."""

import subprocess
import sys

LOADED = "import sys, emulator.system.supervisor as _; print(*sorted({name.partition('.')[0] for name in sys.modules}))"


def test_the_slow_libraries_are_imported_after_the_fork_server_and_s3_have_started() -> None:
    """aiohttp is half of the supervisor's imports; loaded at the top, it delays every other process."""
    loaded = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True).stdout.split()

    assert "emulator" in loaded
    assert {"aiohttp", "pydantic", "moto", "obstore", "watchfiles"} & set(loaded) == set()
