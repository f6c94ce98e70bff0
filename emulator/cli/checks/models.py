"""The programs of agents, and the keys and logins of their models."""

from collections.abc import Iterator, Mapping, Sequence

from emulator.cli.checks.finding import Finding, ok, problem, warning
from emulator.cli.checks.installation import StoredAgent
from emulator.cli.checks.running import in_environment
from shared.agents import registry
from shared.core.errors import ConfigInvalid
from shared.turns.gateway import readiness
from shared.turns.gateway.readiness import Readiness
from shared.turns.gateway.upstreams import GatewaySettings


def load(environ: Mapping[str, str]) -> GatewaySettings | Finding:
    """The settings of models as dispatch would read them from its environment."""
    try:
        with in_environment(environ):
            return GatewaySettings.load()
    except ConfigInvalid as error:
        return problem("models", str(error), "correct the value, in .env or in the environment")


def findings(models: GatewaySettings, agents: Sequence[StoredAgent], *, now_ms: int) -> Iterator[Finding]:
    """What can work here, and the agents whose models have no key or no login any more."""
    for provider in registry.AUTO_ORDER:
        yield _of_provider(readiness.look(provider, models, now_ms=now_ms))
    for agent in agents:
        found = readiness.look(agent.provider, models, now_ms=now_ms, config=agent.config)
        if found.why_not is not None and found.program is not None and found.program.why_not is None:
            yield problem(
                "models", f"{agent.id}: {found.why_not}", "set it in .env, and restart (docs/agents/money.md)"
            )


def _of_provider(found: Readiness) -> Finding:
    if found.why_not is not None:
        return ok("provider", f"{found.provider} is not set up: {found.why_not}")
    remark = found.program.remark if found.program else None
    if remark is not None:
        return warning("provider", f"{found.provider} can work; {remark}")
    version = f" {found.program.version}" if found.program else ""
    return ok("provider", f"{found.provider}{version} can work, and `auto` may choose it")
