"""What a running emulator says about itself: lines at its start, ``/_emulator/status`` and ``instance.json``."""

import datetime
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from emulator.base import door, environment
from emulator.base.console import Console
from emulator.base.hints import command_line, relative
from emulator.system.components import Components
from emulator.system.functions import Function
from shared import __version__
from shared.db.engine import schema
from shared.db.engine.owner_only import replace_text
from shared.db.engine.past import Past


class EmulatorStatus:
    """One emulator as others see it; *started* is its start by ``time.monotonic``."""

    def __init__(self, components: Components, console: Console, started: float) -> None:
        self._components = components
        self._console = console
        self._started = started
        self._ready_s = 0.0

    def write_instance_file(self) -> None:
        """The emulator is ready: write its addresses and its environment where other commands look for them."""
        self._ready_s = time.monotonic() - self._started
        replace_text(
            self._components.state.instance_file,
            json.dumps(
                {
                    "pid": os.getpid(),
                    "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                    "urls": self.urls(),
                    "environment": self.environment(),
                    "past": self._past(),
                }
            ),
        )

    def urls(self) -> dict[str, str]:
        components = self._components
        return {
            "gateway": components.url,
            "chat": f"{components.url}/_emulator/chat",
            "api": components.api_url,
            "replica": components.replica_url,
            "s3": components.s3.url,
            "platforms": components.platforms.url,
        }

    def environment(self) -> dict[str, str]:
        """The variables for commands that use this emulator: ``emulator exec``, and the commands over REST."""
        components = self._components
        token = components.functions["api"].environment.get("POSTROOM_API_TOKEN")
        return {
            **({"POSTROOM_API_TOKEN": token} if token else {}),
            **({door.TOKEN: components.door.token} if components.door.token else {}),
            **environment.DUMMY_AWS,
            **components.platforms.environment(),
            "DISCORD_RELAY_TARGET": f"{components.url}/webhooks/discord",
            "DISCORD_RELAY_STATE": str(components.state.path / "discord_relay.json"),
            "EMULATOR_URL": components.url,
            "EMULATOR_API": components.api_url,
            "POSTROOM_URL": components.api_url,
            "EMULATOR_CHAT": f"{components.url}/_emulator/chat",
            "EMULATOR_REPLICA_URL": components.replica_url,
            "EMULATOR_STATE": str(components.state.path),
            "EMULATOR_PID": str(os.getpid()),
            "POSTROOM_DB": str(components.state.database),
            "POSTROOM_RUN_DIR": str(components.state.run),
            "POSTROOM_TICK_SECRET": components.tick_secret,
        }

    def facts(self, stops: Sequence[str], needs: Sequence[str], wanted: Sequence[str]) -> dict[str, Any]:
        """The answer to ``/_emulator/status``; the sentences are those of ``EmulatorHealth``."""
        components = self._components
        return {
            "ready": not stops,
            "problems": [*stops, *needs],
            "notReady": list(stops),
            "needsYou": list(needs),
            "asWanted": list(wanted),
            "past": self._past(),
            "clock": components.clock.facts.as_dict(),
            "pid": os.getpid(),
            "state": str(components.state.path),
            "kept": components.options.is_kept,
            "uptime_s": round(time.monotonic() - self._started, 1),
            "ready_s": round(self._ready_s, 3),
            "urls": self.urls(),
            "functions": [function.facts() for function in components.functions.all],
            "ticks": [
                {"function": tick.function, "every_ms": tick.every_ms, "path": tick.path} for tick in components.ticks
            ],
            "s3": {"pid": components.s3.pid, "url": components.s3.url, "problem": components.s3.problem},
            "replica": {
                "pid": components.litestream.pid,
                "url": components.replica_url,
                "place": components.litestream.current_url,
                "behind": components.litestream.is_behind,
                "problem": components.litestream.problem,
            },
            "relay": components.relay and {"pid": components.relay.pid, "problem": components.relay.problem},
        }

    def _past(self) -> dict[str, Any] | None:
        """Of what the database is a copy, if it is one of the past."""
        past = self._components.past
        return None if past is None else {**asdict(past), "sentence": past.sentence}

    def print_header(self) -> None:
        """Print what starts now, and each port that differs from the wanted one."""
        components, console = self._components, self._console
        deployment, options, sockets = components.deployment, components.options, components.sockets
        counts = (
            f"{len(deployment.functions)} functions, {len(deployment.routes)} routes, {len(deployment.ticks)} ticks"
        )
        kept = "kept" if options.is_kept else "deleted at the end"
        console.say(
            f"postroom emulator {__version__}   {options.template.name} ok ({counts})   "
            f"state {relative(components.state.path)} ({kept})",
            event="emulator.starting",
            pid=os.getpid(),
            state=str(components.state.path),
        )
        if (sentence := components.clock.facts.sentence) is not None:
            console.note(f"{sentence}; `{command_line('clock reset', components.state.path)}` ends that")
        named = {"gateway": sockets.gateway, "s3": sockets.s3, "api": sockets.functions["api"]}
        for name, listening in named.items():
            if listening.instead_of is not None:
                by = f" by {listening.holder}" if listening.holder else ""
                console.note(f"port {listening.instead_of} is in use{by} → {name} is at port {listening.port}")

    def describe_function(self, function: Function) -> str:
        """Its routes, its tick and its file."""
        deployment = self._components.deployment
        routes = [
            f"{','.join(route.methods) or 'ANY'} {route.path_pattern}"
            for route in deployment.routes
            if route.function == function.name
        ]
        ticks = [f"every {_period(tick.every_ms)}" for tick in self._components.ticks if tick.function == function.name]
        return f"{'; '.join(routes) or '-':<30} {', '.join(ticks):<12} {function.spec.source}"

    def _print_past(self, past: Past) -> None:
        newest = max(schema.migrations())
        migrated = f"\n  Its schema was {past.schema}; the copy has {newest}." if past.schema < newest else ""
        folder = self._components.state.path
        self._console.say(
            f"\n  THIS IS THE PAST, and it sends to nobody: {past.replica}\n"
            f"  asked for {past.asked or 'the newest position'}; it is position {past.txid}, of {past.timestamp}"
            f"{migrated}\n"
            f"  What waited then still waits: nothing runs or is sent by itself.\n"
            f"  Replay    {command_line('sessions list', folder)}; {command_line('replay SESSION', folder)}\n"
            f"  Again     {command_line('run', folder)}",
            event="emulator.past",
            replica=past.replica,
            asked=past.asked,
            txid=past.txid,
            timestamp=past.timestamp,
        )

    def print_summary(self) -> None:
        """Print the addresses, and the command to begin with."""
        urls = self.urls()
        terminal = command_line("chat telegram", self._components.state.path)
        if (past := self._components.past) is not None:
            self._print_past(past)
            terminal = command_line("search TEXT", self._components.state.path)
        self._console.say(
            f"\n  Gateway    {urls['gateway']:<34} Chat page  {urls['chat']}\n"
            f"  API        {urls['api']:<34} Terminal   {terminal}\n"
            f"  Replica    {urls['replica']}\n"
            f"  Operators  {urls['gateway'] + '/':<34} what needs you, and why\n\n"
            f"Ready in {self._ready_s:.2f} s. Ctrl-C stops everything.\n",
            short=f"Ready in {self._ready_s:.2f} s at {urls['gateway']}",
            event="emulator.ready",
            ms=round(self._ready_s * 1000),
            urls=urls,
        )
        self._console.hides_all_but_errors = False


def _period(ms: int) -> str:
    return f"{ms / 1000:g} s" if ms < 60_000 else f"{ms / 60_000:g} min"
