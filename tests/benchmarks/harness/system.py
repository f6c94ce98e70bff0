"""Our functions, each in its own process as the runner serves it, on one database; beside them Litestream and S3."""

import json
import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from shared.db.replica import sync_permit
from shared.db.replica.litestream_program import GO_SETTINGS
from shared.roster.new_database import prepare_database
from tests.benchmarks.harness.measure import cpu_s, family

SECRET = "benchmark-secret"
TICK_SECRET = "benchmark-tick"
BUCKET = "postroom-replica"
_READY_LIMIT_S = 60.0
_SERVE = """
import socket, sys
from infra.runner.serve import serve
name, package, fd = sys.argv[1:]
sys.exit(serve(name, package=package, sock=socket.socket(fileno=int(fd)), timeout_ms=60_000))
"""


class System:
    """The functions that run on the database in *folder*; all end with the block."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None, *, db: Path | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.db = db or folder / "postroom.db"
        # Short: the path of a Unix socket has at most 107 bytes.
        self.run_dir = Path(tempfile.mkdtemp(prefix="pr-"))
        self.control = self.run_dir / "litestream.sock"
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(Path.cwd()),
            "POSTROOM_DB": str(self.db),
            "POSTROOM_RUN_DIR": str(self.run_dir),
            "POSTROOM_AGENTS_DIR": str(folder / "agents"),
            "POSTROOM_TICK_SECRET": TICK_SECRET,
            "TELEGRAM_BOT_TOKEN": "7100200300:benchmark-token-benchmark-token-aaaa",
            "POSTROOM_PACE_SENDS": "false",  # the platform of a benchmark has no limits
            "POSTROOM_SENDER_LIMIT": "0",  # few senders write as fast as the machine allows
            "POSTROOM_SENDER_BYTES": "0",
            "POSTROOM_CHAT_LIMIT": "0",
            "TELEGRAM_WEBHOOK_SECRET": SECRET,
            **(environment or {}),
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ports: dict[str, int] = {}
        prepare_database(self.db)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._processes):
            self.stop(name)
        shutil.rmtree(self.run_dir, ignore_errors=True)

    def start(self, *names: str, package: str = "functions", **environment: str) -> None:
        """Return when all of them answer."""
        for name in names:
            with socket.create_server(("127.0.0.1", 0), backlog=512) as sock:
                self._ports[name] = sock.getsockname()[1]
                self._processes[name] = subprocess.Popen(
                    [sys.executable, "-c", _SERVE, name, package, str(sock.fileno())],
                    env={**self.environment, **environment},
                    pass_fds=[sock.fileno()],
                    stdout=subprocess.DEVNULL,
                )
        for name in names:
            self._wait_healthy(name)

    def litestream(
        self, replica: str, environment: Mapping[str, str] | None = None, *, is_watched: bool = False
    ) -> Path:
        """Start Litestream; the path of its log, which has each of its steps where it *is_watched*."""
        log = self.folder / "litestream.log"
        config = self.folder / "litestream.yml"
        settings = Path("infra/litestream.yml").read_text()
        config.write_text(settings.replace("level: info", "level: debug") if is_watched else settings)
        variables = {
            "POSTROOM_REPLICA_URL": replica,
            "POSTROOM_LITESTREAM_SOCKET": str(self.control),
            "POSTROOM_REPLICA_INTERVAL": "100ms",
            **GO_SETTINGS,
            **(environment or {}),
        }
        with log.open("wb") as out:
            self._processes["litestream"] = subprocess.Popen(
                [str(Path(sys.executable).with_name("litestream")), "replicate", "-config", str(config)],
                env={**self.environment, **variables},
                stdout=out,
                stderr=out,
            )
        deadline = time.monotonic() + _READY_LIMIT_S
        while not self.control.exists():
            if time.monotonic() > deadline:
                raise RuntimeError(f"Litestream did not start; its log ends with: {log.read_text()[-500:]}")
            time.sleep(0.02)
        sync_permit.grant(self.control, math.inf)  # as its supervisor does, which is not measured here
        return log

    def replicate(self, replica: str, environment: Mapping[str, str] | None = None) -> None:
        """Start Litestream under its supervisor, as a deployment does; return when the replica has a full copy."""
        variables = {
            "POSTROOM_REPLICA_URL": replica,
            "POSTROOM_LITESTREAM_SOCKET": str(self.control),
            **(environment or {}),
        }
        self._processes["replicate"] = subprocess.Popen(
            [sys.executable, "-m", "infra.replicate"],
            env={**self.environment, **variables},
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + _READY_LIMIT_S
        while not sync_permit.is_valid(self.control):
            if time.monotonic() > deadline or self._processes["replicate"].poll() is not None:
                raise RuntimeError("infra.replicate gave no permit; its log is on stderr")
            time.sleep(0.02)

    def s3(self) -> tuple[str, dict[str, str]]:
        """The emulator's S3 on loopback: the replica's URL, and the environment for Litestream."""
        with socket.create_server(("127.0.0.1", 0), backlog=128) as sock:
            port = sock.getsockname()[1]
            self._processes["s3"] = subprocess.Popen(
                [
                    *(sys.executable, "-m", "emulator.storage.s3_server", "--fd", str(sock.fileno())),
                    *("--dir", str(self.folder / "s3"), "--bucket", BUCKET),
                ],
                env=self.environment,
                pass_fds=[sock.fileno()],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=_READY_LIMIT_S) as answer:
            answer.read()
        return f"s3://{BUCKET}/db?endpoint=http://127.0.0.1:{port}", {
            "AWS_ACCESS_KEY_ID": "emulator",
            "AWS_SECRET_ACCESS_KEY": "emulator",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def port(self, name: str) -> int:
        return self._ports[name]

    def pid(self, name: str) -> int:
        return self._processes[name].pid

    def cpu_s(self) -> float:
        """The processor time of all processes that run, with those that they have forked."""
        return sum(cpu_s(pid) for process in self._processes.values() for pid in family(process.pid))

    def stop(self, name: str) -> None:
        process = self._processes.pop(name)
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _wait_healthy(self, name: str) -> None:
        url = f"http://127.0.0.1:{self._ports[name]}/healthz"
        with urllib.request.urlopen(url, timeout=_READY_LIMIT_S) as answer:  # the socket already listens
            if answer.status != 200:
                raise RuntimeError(f"{name} answered {answer.status}")


def forced_snapshots(log: Path) -> int:
    """How often Litestream lost its position in the WAL and copied the whole database; the first copy is normal."""
    whole = sum('"snap":"true"' in line for line in log.read_text("utf-8", "replace").splitlines())
    return max(0, whole - 1)


def tick(system: System, name: str) -> dict[str, Any]:
    """Send a tick as the ticker does; the function's answer."""
    url = f"http://127.0.0.1:{system.port(name)}/tick"
    request = urllib.request.Request(url, b"", {"X-Postroom-Tick": TICK_SECRET})
    with urllib.request.urlopen(request, timeout=120) as answer:
        found: dict[str, Any] = json.loads(answer.read())
        return found
