"""Starts a Litestream that replicates."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.litestream import local_state
from infra.litestream.replica_settings import replicating_environment
from infra.litestream.wal import begin_log, lock_checkpoints
from infra.processes import spawn
from shared.db.replica import sync_permit

CHECKPOINT_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class LitestreamLaunch:
    """What a Litestream on one database starts with.

    Args:
        argv: the program, with the configuration that names the database, *control*, and ``POSTROOM_REPLICA_URL``.
        checkpoint_limit_s: how long another process may checkpoint.
        configure: called with the prefix's URL before each start.
    """

    argv: Sequence[str]
    environment: Mapping[str, str]
    database: Path
    control: Path
    checkpoint_limit_s: float = CHECKPOINT_LIMIT_S
    configure: Callable[[str], None] = lambda url: None

    async def start(self, prefix_url: str) -> asyncio.subprocess.Process:
        """Start one that replicates to this prefix. No sync permit is valid then, and no local state is trusted.

        Raises:
            InUse: another process has the checkpoint lock, or stays inside a transaction.
        """
        sync_permit.revoke(self.control)
        self.control.unlink(missing_ok=True)
        await asyncio.to_thread(local_state.remove_mark, self.database)
        self.configure(prefix_url)
        checkpoint_lock = await lock_checkpoints(self.database, self.checkpoint_limit_s)
        try:
            await asyncio.to_thread(begin_log, self.database)
            return await spawn(
                self.argv,
                environment=replicating_environment(self.environment, prefix_url),
                pass_fds=[checkpoint_lock.fileno()],
            )
        finally:
            checkpoint_lock.release()  # Litestream has it now
