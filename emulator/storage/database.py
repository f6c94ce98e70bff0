"""Prepares the database at the start, before anything opens it: the newest copy or a restored one, and migrated."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emulator.base.errors import AlreadyInUse, Misconfigured, NotADatabase, NotReady
from emulator.base.hints import command_line, relative
from emulator.base.state import StateFolder
from emulator.processes.fork_client import ForkClient
from emulator.storage import replica
from infra.litestream import FileRefused, Lease, Ready, Step, prepare_replication
from shared.core.errors import DatabaseRefused, InUse, PostroomError

_LIMIT_S = 600.0  # a migration may read all rows of a large database


async def claim(state: StateFolder, replica_url: str, lease: Lease, aws: Mapping[str, str]) -> Ready:
    """Take the replica's lease, and make sure that the file is as new as the bucket; restore it if it is missing.

    Raises:
        EmulatorError: another emulator has the lease, the file is not the newest, or a restore failed.
    """
    database = state.database
    try:
        return await prepare_replication(database, replica_url, lease, aws, limit_s=replica.RESTORE_LIMIT_S)
    except InUse as error:
        raise AlreadyInUse(str(error)) from None
    except FileRefused as error:
        raise NotADatabase(
            f"{error}\n"
            f"  to use the copy in the bucket  move {database.name}* away, and start again\n"
            f"  to use the file                move {relative(state.s3)} away, and start again"
        ) from None
    except DatabaseRefused as error:
        raise NotADatabase(str(error)) from None
    except PostroomError as error:
        raise NotReady(
            f"{error}. To begin with an empty database: `{command_line('data reset', state.path)}`"
        ) from None


def describe_replica(ready: Ready, count: str) -> str | None:
    """A sentence about the replica, if there is anything to say."""
    if ready.is_started_over:
        return "the bucket is empty: the replica starts again from the database"
    return {
        Step.RESTORE: f"restored {count} messages from the replica (position {ready.txid})",
        Step.AGAIN: "litestream was killed last time: the replica starts again with a full copy",
        Step.BEGIN: "the replica continues in a new epoch, from the database in this folder",
    }.get(ready.step)


async def prepare(fork_client: ForkClient, database: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """Create or migrate the database in a child process; returns facts about it.

    Raises:
        EmulatorError: the database or the settings can't be used.
    """
    lines: list[str] = []

    def listen(text: str, _: bool) -> None:
        lines.append(text)

    fork = fork_client.fork("db", "emulator.processes.entrypoints:prepare_database", {}, environment, on_line=listen)
    code = await fork.wait_ended(_LIMIT_S)
    if code == NotADatabase.exit_code:
        raise NotADatabase(lines[-1])
    if code == Misconfigured.exit_code:
        raise Misconfigured(lines[-1])
    if code == NotReady.exit_code:
        raise NotReady(lines[-1])
    if code is None:
        raise NotReady(
            f"{database} is not ready after {_LIMIT_S:.0f} s, and the process that prepares it still works. The "
            f"machine is too busy, or its disk too slow. Nothing is lost: stop what keeps it busy, and start again"
        )
    if code != 0:
        last = "".join(f"\n    {line}" for line in lines[-12:])
        end = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        raise NotReady(f"{database} could not be prepared, because the process that does so {end}. Start again{last}")
    facts: dict[str, Any] = json.loads(lines[-1])
    return facts
