"""The database at the start: known to be the newest, or restored, and of this release; nothing opens it before that."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emulator.base.errors import AlreadyInUse, Misconfigured, NotADatabase, NotReady
from emulator.base.hints import command_line, relative
from emulator.base.state import StateFolder
from emulator.processes.fork_client import ForkClient
from emulator.storage import replica
from infra.litestream import prepare as agreement
from infra.litestream.lease import Lease
from infra.litestream.prepare import Ready, Step
from infra.litestream.restore_command import FileRefused
from shared.core.errors import InUse, PostroomError

_LIMIT_S = 30.0


async def claim(state: StateFolder, replica_url: str, lease: Lease, aws: Mapping[str, str]) -> Ready:
    """The replica's lease, and the file and the bucket in agreement.

    Raises:
        EmulatorError: somebody else has it, the file is not the newest, or nothing can be restored.
    """
    database = state.database
    try:
        return await agreement.prepare(database, replica_url, lease, aws, limit_s=replica.RESTORE_LIMIT_S)
    except InUse as error:
        raise AlreadyInUse(str(error)) from None
    except FileRefused as error:
        raise NotADatabase(
            f"{error}\n"
            f"  to go on from the bucket  move {database.name}, and what begins with that name, away; start again\n"
            f"  to go on from the file    move {relative(state.s3)} away; start again"
        ) from None
    except PostroomError as error:
        raise NotReady(f"{error}. `{command_line('data reset', state.path)}` begins with an empty database") from None


def how_it_goes_on(ready: Ready, count: str) -> str | None:
    """A sentence about the replica, where there is something to say."""
    if ready.is_anew:
        return "the bucket is empty: the replica begins anew from the database"
    return {
        Step.RESTORE: f"restored {count} messages from the replica (position {ready.txid})",
        Step.AGAIN: "litestream was cut off the last time: the replica begins with a whole copy",
        Step.BEGIN: "the replica goes on in a new epoch, from the database as it is here",
    }.get(ready.step)


async def prepare(fork_client: ForkClient, database: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """Make or migrate it, in a child; what is in it.

    Raises:
        EmulatorError: it can't be used, or the settings can't.
    """
    said: list[str] = []

    def listen(text: str, _: bool) -> None:
        said.append(text)

    fork = fork_client.fork("db", "emulator.processes.entrypoints:prepare_database", {}, environment, on_line=listen)
    code = await fork.wait_ended(_LIMIT_S)
    if code == NotADatabase.exit_code:
        raise NotADatabase(said[-1])
    if code == Misconfigured.exit_code:
        raise Misconfigured(said[-1])
    if code != 0:
        last = "\n".join(f"    {line}" for line in said[-12:])
        raise NotReady(f"{database} could not be prepared (code {code}):\n{last}")
    facts: dict[str, Any] = json.loads(said[-1])
    return facts
