"""Litestream in the emulator: production's supervisor of :mod:`infra.litestream`, with short intervals."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from emulator.base.errors import NotReady
from emulator.storage.s3_process import BUCKET
from infra.litestream import Doubt, Lease, LitestreamSupervisor
from shared.db.replica.litestream_program import program

PREFIX = "db"
RESTORE_LIMIT_S = 120.0
STOP_LIMIT_S = 5.0
_READY_LIMIT_S = 10.0

_SENTENCES = {
    "replicate.behind": "replication is behind: {reason}. The rows are safe on this disk; it catches up by itself",
    "replicate.caught_up": "replication has caught up",
    "replicate.mending": "litestream can no longer read the database: restarting it",
    "replicate.standing_still": "litestream is stuck although the bucket answers ({reason}): restarting it",
    "replicate.doubtful": "the replica may be incomplete ({reason}): restarting litestream",
    "replicate.waiting": "litestream can't be restarted yet: {reason}. The next attempt follows",
    "replicate.litestream_ended": "litestream ended with code {code}; restarting it in {again_in_s:.1f} s",
    "replicate.litestream_started": "litestream is up again",
    "replicate.lease_unsure": "the replica's lease could not be renewed: {reason}. The next attempt follows",
    "replicate.lease_renewed": "the replica's lease is renewed",
    "replicate.cant_remove": "an old prefix of the replica could not be removed: {reason}. The next attempt follows",
    "replicate.fenced": "{reason}",
}


def url(port: int) -> str:
    """The URL of the replica, for Spark and for people."""
    return f"s3://{BUCKET}/{PREFIX}?endpoint=http://127.0.0.1:{port}"


class EmulatorLitestream(LitestreamSupervisor):
    """The Litestream process. *on_line* gets its output, *on_trouble* a sentence for each trouble and recovery."""

    def __init__(
        self,
        *,
        database: Path,
        replica: str,
        run: Path,
        lease: Lease,
        environment: Mapping[str, str],
        on_line: Callable[[str], None],
        on_trouble: Callable[[str], None],
        retention_ms: int = 0,
    ) -> None:
        self._config = run / "litestream.yml"
        self._hear = on_line
        self._trouble = on_trouble
        super().__init__(
            [program(), "replicate", "-config", str(self._config), "-no-expand-env"],
            replica=replica,
            environment=environment,
            database=database,
            control=socket_in(run),
            lease=lease,
            report=self._tell_trouble,
            on_line=self._pass_on,
            stop_limit_s=STOP_LIMIT_S,
            configure=self._configure,
            retention_ms=retention_ms,
        )

    async def start_ready(self) -> None:
        """Start, and return when the first rows are in the bucket and readers can find them.

        Raises:
            NotReady: with Litestream's own error.
        """
        await self.start()
        problem: str | None = "it did not answer"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_READY_LIMIT_S):
                while self.pid is not None:
                    problem = await self.sync(_READY_LIMIT_S)
                    if problem is None and self.lease.record.has_full_copy:
                        return
                    problem = problem or "the lease could not be written"
                    await asyncio.sleep(0.01)
                problem = "it ended"
        raise NotReady(f"litestream does not replicate to {self.current_url}: {problem}")

    def kill(self) -> int | None:
        """Kill Litestream, and start no other before :meth:`revive`; its process id."""
        self.life.may_follow.clear()
        pid = self.pid
        self.life.hold(Doubt.DISPROVEN)
        self.life.kill()
        return pid

    def revive(self) -> None:
        """Start another Litestream after :meth:`kill`."""
        self.life.may_follow.set()

    async def wait_begun(self, limit_s: float) -> str | None:
        """Wait until commits are in the bucket again, and a restore finds them; why not, or None."""
        problem: str | None = "Litestream has not started"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while self.pid is None or not self.lease.record.has_full_copy or problem is not None:
                    problem = await self.sync(limit_s)
                    await asyncio.sleep(0.01)
                return None
        return problem or "the bucket has no full copy yet"

    def _configure(self, prefix_url: str) -> None:
        """As infra/litestream.yml, with short intervals: a person is watching, and the bucket is on this machine."""
        configuration = {
            "socket": {"enabled": True, "path": str(self.control), "permissions": 0o600},
            "logging": {"level": "info", "type": "json"},
            "l0-retention": "1h",
            "l0-retention-check-interval": "5m",
            "shutdown-sync-timeout": "3s",
            "dbs": [
                {
                    "path": str(self._database),
                    "monitor-interval": "100ms",
                    "truncate-page-n": 1_000_000_000,
                    "replica": {"url": prefix_url, "sync-interval": "200ms", "auto-recover": False},
                }
            ],
        }
        self._config.write_text(json.dumps(configuration, indent=2))  # JSON is YAML too

    @property
    def problem(self) -> str | None:
        """Why commits do not reach the bucket, as far as it is known without asking; None if they do."""
        if self.pid is None:
            return "litestream ended and is restarted"
        return self.behind

    def _tell_trouble(self, event: str, **facts: Any) -> None:
        if event in _SENTENCES:
            self._trouble(_SENTENCES[event].format(**facts))

    def _pass_on(self, line: str) -> None:
        """Pass on warnings and errors, and no lines about housekeeping."""
        try:
            # A line about compaction has "level" twice: first the log level, then the compaction level.
            facts = json.loads(line, object_pairs_hook=lambda pairs: dict(reversed(pairs)))
        except ValueError:
            self._hear(line)
            return
        level = str(facts.pop("level", "")).lower()
        if level in ("info", "debug"):
            return
        facts.pop("time", None)
        log_line = {
            "event": "litestream.said",
            "level": {"warn": "warning"}.get(level, level),
            "said": facts.pop("msg", ""),
        }
        self._hear(json.dumps(log_line | facts))


def socket_in(run: Path) -> Path:
    """Litestream's control socket."""
    return run / "litestream.sock"
