"""What is told of a running emulator: to people by lines at its start, to programs by status and ``instance.json``."""

import datetime
import json
import os
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from emulator.base import environment
from emulator.base.console import Console
from emulator.base.hints import command_line, relative
from emulator.base.state import write_private
from emulator.system.components import Components
from emulator.system.functions import Function


class EmulatorStatus:
    """One emulator as others see it; *started* is when it began, by ``time.monotonic``."""

    def __init__(self, parts: Components, console: Console, started: float) -> None:
        self._components = parts
        self._console = console
        self._started = started
        self._ready_s = 0.0

    def announce(self) -> None:
        """It is ready: write down where, for whoever looks from now on."""
        self._ready_s = time.monotonic() - self._started
        write_private(
            self._components.state.instance_file,
            json.dumps(
                {
                    "pid": os.getpid(),
                    "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                    "urls": self.urls(),
                    "environment": self.environment(),
                }
            ),
        )

    def urls(self) -> dict[str, str]:
        parts = self._components
        return {
            "gateway": parts.url,
            "chat": f"{parts.url}/_emulator/chat",
            "api": parts.api_url,
            "replica": parts.replica_url,
            "s3": parts.objects.url,
            "platforms": parts.platforms.url,
        }

    def environment(self) -> dict[str, str]:
        """What a command gets that is run against us (``emulator exec``, and those over REST)."""
        parts = self._components
        token = parts.functions["api"].environment.get("POSTROOM_API_TOKEN")
        return {
            **({"POSTROOM_API_TOKEN": token} if token else {}),
            **environment.DUMMY_AWS,
            **parts.platforms.environment(),
            "EMULATOR_URL": parts.url,
            "EMULATOR_API": parts.api_url,
            "POSTROOM_URL": parts.api_url,
            "EMULATOR_CHAT": f"{parts.url}/_emulator/chat",
            "EMULATOR_REPLICA_URL": parts.replica_url,
            "EMULATOR_STATE": str(parts.state.path),
            "EMULATOR_PID": str(os.getpid()),
            "POSTROOM_DB": str(parts.state.database),
            "POSTROOM_RUN_DIR": str(parts.state.run),
            "POSTROOM_TICK_SECRET": parts.tick_secret,
        }

    def status(self, *, is_ready: bool) -> dict[str, Any]:
        """What ``/_emulator/status`` answers."""
        parts = self._components
        return {
            "ready": is_ready,
            "pid": os.getpid(),
            "state": str(parts.state.path),
            "kept": parts.options.is_kept,
            "uptime_s": round(time.monotonic() - self._started, 1),
            "ready_s": round(self._ready_s, 3),
            "urls": self.urls(),
            "functions": [function.facts() for function in parts.functions.all],
            "ticks": [
                {"function": tick.function, "every_ms": tick.every_ms, "path": tick.path}
                for tick in parts.deployment.ticks
            ],
            "s3": {"pid": parts.objects.pid, "url": parts.objects.url},
            "replica": {
                "pid": parts.litestream.pid,
                "url": parts.replica_url,
                "place": parts.litestream.place,
                "behind": parts.litestream.is_behind,
            },
        }

    def greet(self) -> None:
        """What is about to be started, and what is not as somebody may have wanted it."""
        parts, console = self._components, self._console
        deployment, options, sockets = parts.deployment, parts.options, parts.sockets
        counts = (
            f"{len(deployment.functions)} functions, {len(deployment.routes)} routes, {len(deployment.ticks)} ticks"
        )
        kept = "kept" if options.is_kept else "thrown away at the end"
        console.say(
            f"postroom emulator {_version()}   {options.template.name} ok ({counts})   "
            f"state {relative(parts.state.path)} ({kept})",
            event="emulator.starting",
            pid=os.getpid(),
            state=str(parts.state.path),
        )
        for sentence in environment.overruled(parts.files, parts.own_environment()):
            console.note(sentence)
        named = {"gateway": sockets.gateway, "s3": sockets.s3, "api": sockets.functions["api"]}
        for name, listening in named.items():
            if listening.instead_of is not None:
                by = f" by {listening.holder}" if listening.holder else ""
                console.note(f"port {listening.instead_of} is used{by} → {name} is at {listening.port}")

    def describe(self, function: Function) -> str:
        """What reaches it, what ticks it, and where it stands."""
        deployment = self._components.deployment
        routes = [
            f"{','.join(route.methods) or 'ANY'} {route.path_pattern}"
            for route in deployment.routes
            if route.function == function.name
        ]
        ticks = [f"every {_period(tick.every_ms)}" for tick in deployment.ticks if tick.function == function.name]
        return f"{'; '.join(routes) or '-':<30} {', '.join(ticks):<12} {function.spec.source}"

    def summarise(self) -> None:
        """The addresses, and what to do next."""
        urls = self.urls()
        self._console.say(
            f"\n  Gateway    {urls['gateway']:<34} Chat page  {urls['chat']}\n"
            f"  API        {urls['api']:<34} Terminal   {command_line('chat telegram', self._components.state.path)}\n"
            f"  Replica    {urls['replica']}\n\n"
            f"Ready in {self._ready_s:.2f} s. Ctrl-C stops everything.\n",
            event="emulator.ready",
            ms=round(self._ready_s * 1000),
            urls=urls,
        )
        self._console.is_calm = False


def _version() -> str:
    with suppress(PackageNotFoundError):
        return version("postroom")
    return "(from its folder)"


def _period(ms: int) -> str:
    return f"{ms / 1000:g} s" if ms < 60_000 else f"{ms / 60_000:g} min"
