"""Proves that a restore gives the live database: ``python -m infra.verify``, beside a running ``infra.replicate``.

With the environment of ``infra/litestream.yml``. Writers wait at the write gate for some milliseconds, until Litestream
has read the end of the log. At that moment its position and the state that a reader of the live file sees are the same.
That state is copied to a folder beside the database, which needs the room, and digested there. When the position is in
the bucket, it is restored to the same folder, and every table is compared row by row.

A shell that writes to the file does not wait at the gate, and a bucket may stumble. So a difference is reported only if
a second comparison finds one too.

Prints one line and ends with 0, they are equal; 65, they differ, or the replica does not restore; 69, nothing could be
compared, which says nothing of the replica; 78, the environment is wrong.
"""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from infra.litestream.comparison.compare import NotVerified, compare_with_restore, reason_of, remove_leftovers
from infra.litestream.comparison.finding import comparison_facts
from infra.litestream.replica_settings import replica_url, setting
from infra.litestream.restore import exit_code
from infra.processes import kill_group, spawn
from shared.core import logs
from shared.core.errors import PostroomError

EQUAL, DIFFERS, NOT_VERIFIED = "verify.equal", "verify.differs", "verify.not_verified"
_LONGEST_REASON = 1000
_OF_EVERY_LINE = ("event", "function", "level", "timestamp")

log = logs.get()


async def verify_in_subprocess(
    database: Path, url: str, control: Path, environment: Mapping[str, str]
) -> tuple[str, dict[str, Any]]:
    """Verify in a process of its own, which ends with us; one of the three events, and its facts."""
    settings = {
        "POSTROOM_DB": str(database),
        "POSTROOM_REPLICA_URL": url,
        "POSTROOM_LITESTREAM_SOCKET": str(control),
    }
    try:
        process = await spawn([sys.executable, "-m", "infra.verify"], environment={**environment, **settings})
    except OSError as error:  # no memory, say
        return NOT_VERIFIED, {"reason": reason_of(error)}
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:  # we are cancelled
            kill_group(process.pid)
            await process.wait()
        remove_leftovers(database)  # it may have been killed
    return parse_output(output.decode("utf-8", "replace"))


def parse_output(output: str) -> tuple[str, dict[str, Any]]:
    """The event and the facts in the output of this program."""
    for line in reversed(output.splitlines()):
        with contextlib.suppress(ValueError, AttributeError):
            said = json.loads(line)
            facts = {name: fact for name, fact in said.items() if name not in _OF_EVERY_LINE}
            return (said["event"] if said.get("event") in (EQUAL, DIFFERS) else NOT_VERIFIED), facts
    return NOT_VERIFIED, {"reason": f"the comparison ended before its time: {output[-_LONGEST_REASON:].strip()}"}


def _terminated(*_: object) -> NoReturn:
    sys.exit(128 + signal.SIGTERM)  # so that every finally runs


def main() -> int:
    """The program; see the module's docstring."""
    logs.configure("verify")
    os.umask(0o077)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        database = Path(setting("POSTROOM_DB")).absolute()
        url, control = replica_url(), Path(setting("POSTROOM_LITESTREAM_SOCKET"))
        found = compare_with_restore(database, url, control, os.environ)
    except NotVerified as error:
        log.warning(NOT_VERIFIED, reason=str(error))
        return os.EX_UNAVAILABLE
    except PostroomError as error:
        log.error("verify.refused", reason=str(error))
        return exit_code(error)
    if found.is_equal:
        log.info(EQUAL, **comparison_facts(found))
        return 0
    log.error(DIFFERS, **comparison_facts(found))
    return os.EX_DATAERR
