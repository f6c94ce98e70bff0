"""A function on a clock that jumps: ``python -m tests.e2e.crash.jumping FILE ingest --fd 3 --timeout 10s``.

Only ``shared.core.time.clock`` reads the wall clock, so this process of the tests moves that one;
production has no such switch. The first eight bytes of FILE are the milliseconds by which the clock is off.
"""

import mmap
import struct
import sys
from pathlib import Path

from shared.core.time import clock


def jump(path: Path, offset_ms: int) -> None:
    """Move the clock of every process that runs on *path*, at once."""
    with path.open("r+b" if path.exists() else "w+b") as file:
        file.write(struct.pack("q", offset_ms))


def main() -> int:
    with open(sys.argv[1], "rb") as file:  # noqa: PTH123
        offset = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
    clock.move(lambda machine_ms: machine_ms + int(struct.unpack("q", offset[:8])[0]))

    from infra.runner import serve

    return serve.main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
