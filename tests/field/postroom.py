"""Postroom in a field trial: production's processes, with a database that its first start makes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from infra.processes import tied_to_this_process
from tests.e2e.conftest import until
from tests.field.http import ask, is_listening
from tests.field.systems import Surroundings
from tests.infra.processes import kept_port

ROOT = Path(__file__).parents[2]
TOKEN = "of-the-operator"
FUNCTIONS = ("ingest", "dispatch", "deliver", "sweep", "recurrence", "api")
TICKS = {"dispatch": "5s", "deliver": "1s", "sweep": "60s", "recurrence": "60s"}  # as in production
AGENTS = """
default = "assistant"

[agents.assistant]
name = "Assistant"
provider = "api"
model = "scripted-1"
config = { models = "anthropic" }
concurrency = 16

[agents.helper]
name = "Helper"
provider = "api"
model = "scripted-1"
config = { models = "anthropic" }
"""
# Shorter waits, a limit of senders that is soon reached, and no pace of sends: the fakes limit nothing here.
SETTINGS = {
    "POSTROOM_API_TOKEN": TOKEN,
    "POSTROOM_TICK_SECRET": "tick-secret",
    "POSTROOM_NEW_CHATS": "wire",
    "POSTROOM_RETRY_BASE_MS": "100",
    "POSTROOM_RETRY_CAP_MS": "1000",
    "POSTROOM_IDLE_TIMEOUT_MS": "5000",
    "POSTROOM_PACE_SENDS": "false",
    "POSTROOM_SENDER_LIMIT": "60",
}


class Postroom:
    """The adapter; *folder* keeps what it keeps."""

    offers = frozenset({"webhooks", "discord", "groups", "topics", "tools", "agents", "limits"})
    second_agent = "@helper "

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = {name: kept_port() for name in FUNCTIONS}
        self._processes: list[subprocess.Popen[bytes]] = []
        ingest = f"http://127.0.0.1:{self._ports['ingest'][1]}/webhooks"
        self.webhooks: Mapping[str, str] = {name: f"{ingest}/{name}" for name in ("telegram", "discord")}
        self.api = f"http://127.0.0.1:{self._ports['api'][1]}"
        (folder / "postroom.toml").write_text(AGENTS)

    def start(self, around: Surroundings) -> None:
        environment = {
            "PATH": os.environ["PATH"],
            **SETTINGS,
            "POSTROOM_DB": str(self._folder / "postroom.db"),
            "POSTROOM_AGENTS_DIR": str(self._folder / "agents"),
            "POSTROOM_CONFIG": str(self._folder / "postroom.toml"),
            "POSTROOM_ANTHROPIC_BASE_URL": around.model,
            "POSTROOM_ANTHROPIC_API_KEY": around.model_key,
            "TELEGRAM_API_BASE": around.telegram,
            "TELEGRAM_BOT_TOKEN": around.telegram_token,
            "TELEGRAM_BOT_USERNAME": around.telegram_username,
            "TELEGRAM_WEBHOOK_SECRET": around.telegram_secret,
            "DISCORD_API_BASE": around.discord,
            "DISCORD_APPLICATION_ID": around.discord_application,
            "DISCORD_BOT_TOKEN": around.discord_token,
            "DISCORD_PUBLIC_KEY": around.discord_public_key,
        }
        for name in FUNCTIONS:
            self._spawn(environment, "infra.runner", name, "--port", str(self._ports[name][1]))
        self._spawn(
            environment, "infra.ticker", *(f"{name}={pause}@{self._port(name)}" for name, pause in TICKS.items())
        )
        until("Postroom", self._is_up, 180)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        for kept, _ in self._ports.values():
            kept.close()

    def is_idle(self) -> bool:
        """A paused agent's messages wait for its operator."""
        waiting = {each["agent"] for each in self._get("queue/agents")}
        if waiting:
            waiting -= {agent for agent, facts in self._get("agents").items() if "paused" in facts}
        return not waiting and self._get("queue/status")["outgoing"] == 0

    def speak(self, text: str) -> str:
        return f'[[tool send_message {{"text": "{text}"}}]]'

    def written(self) -> Iterable[Path]:
        return (path for path in self._folder.rglob("*") if path.is_file())

    def _get(self, path: str) -> Any:
        return ask("GET", f"{self.api}/api/{path}", token=TOKEN)

    def _port(self, name: str) -> int:
        return self._ports[name][1]

    def _spawn(self, environment: dict[str, str], *module: str) -> None:
        """All processes are one group, which one signal reaches."""
        group = self._processes[0].pid if self._processes else 0
        with (self._folder / "log.txt").open("ab") as log:
            argv = [sys.executable, "-m", *module]
            process = subprocess.Popen(
                argv,
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=log,
                process_group=group,
                preexec_fn=tied_to_this_process(),  # none outlives a test run that is killed
            )
        self._processes.append(process)

    def _is_up(self) -> bool:
        ended = [process.args for process in self._processes if process.poll() is not None]
        assert not ended, f"{ended} ended:\n{(self._folder / 'log.txt').read_text()[-3000:]}"
        return all(is_listening(port) for _, port in self._ports.values())

    def _end(self, number: int) -> None:
        if self._processes:
            os.killpg(self._processes[0].pid, number)
        try:
            for process in self._processes:
                process.wait(60)
        finally:
            for process in self._processes:
                process.kill()
                process.wait()
            self._processes = []
