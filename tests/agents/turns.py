"""Turns of a real program: the scripted model API, the gateway, and a toolbox of the test behind it."""

import contextlib
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from shared.agents.access import ToolAnswer, ToolSpec
from shared.agents.base import Failed, Init, Result, Turn
from shared.agents.programs.limits import Limits
from shared.db.engine.connection import open_connection
from shared.db.engine.group_commit import Writer
from shared.db.spending.usage import TurnName
from shared.turns.gateway.model_gateway import ModelGateway
from shared.turns.gateway.upstreams import GatewaySettings
from shared.turns.mcp.app import McpApp
from shared.turns.run.doors import TurnDoors
from tests.agents.harness import KEY

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


@dataclass
class SaysTools:
    """A toolbox that keeps what was called."""

    calls: list = field(default_factory=list)

    def specs(self):
        return [ToolSpec("send_message", "Send a text.", TEXT), ToolSpec("fail", "Always fails.", TEXT)]

    async def call(self, name, arguments, *, call_id=None):
        self.calls.append((name, dict(arguments), call_id))
        return (
            ToolAnswer("there is no such place: ask for list_destinations", True)
            if name == "fail"
            else ToolAnswer("sent #1")
        )


@dataclass
class TurnBench:
    """Runs turns of *provider* in one agent's folder."""

    provider: object
    gateway: ModelGateway
    folder: Path
    tools: SaysTools = field(default_factory=SaysTools)
    events: list = field(default_factory=list)
    refusals: list = field(default_factory=list)

    def turn(self, prompt, *, config=None, continuation=None, limits=None, **more):
        """A turn with this prompt."""
        known = {"model": "scripted-1", "instructions": "Be kind.", "session": "s1", "messages": (), "attempt": 1}
        limits = limits or Limits(idle_ms=30_000, tool_ms=30_000)
        return Turn(
            agent="coder", config=config or {}, folder=self.folder, continuation=continuation, prompt=prompt,
            limits=limits, token=f"turn_{time.monotonic_ns()}", tools=self.tools, **{**known, **more},
        )  # fmt: skip

    @contextlib.asynccontextmanager
    async def running(self, turn):
        """The events of *turn*, while its doors are open."""
        doors = TurnDoors(self.gateway, TurnName(turn.token, turn.agent, turn.session), self.tools)
        async with doors, contextlib.aclosing(self.provider.run(replace(turn, doors=doors))) as events:
            yield events
        self.refusals.append(doors.refusal)

    async def run(self, prompt, **more):
        """The last event of a turn; all are in ``events``."""
        self.events = []
        async with self.running(self.turn(prompt, **more)) as events:
            async for event in events:
                self.events.append(event)
                if isinstance(event, Result | Failed):
                    return event
        return None

    @property
    def continuation(self):
        """What the turn said first."""
        return next(event.continuation for event in self.events if isinstance(event, Init))


@contextlib.asynccontextmanager
async def bench(db, folder, api, provider):
    """*folder*: a test's own, for the agent's and the sockets."""
    reader, writer = open_connection(db, readonly=True), Writer(db)
    models = GatewaySettings(
        anthropic_api_key=KEY, openai_api_key=KEY, local_models_url=f"{api.url}/v1", local_models_api_key=KEY,
        anthropic_base_url=api.url, openai_base_url=f"{api.url}/v1",
    )  # fmt: skip
    gateway = ModelGateway(
        folder / "run", reader, writer, timezone="UTC", on_notice=lambda: None, tools=McpApp, models=models
    )
    (folder / "agent").mkdir(exist_ok=True)
    try:
        yield TurnBench(provider, gateway, folder / "agent")
    finally:
        await gateway.close()
        writer.close()
        reader.close()
