"""Which agents the world of a seed has beyond the one that repeats, and what is imported for all worlds."""

import random
from importlib import import_module

from tests.simulation.agents import models
from tests.simulation.agents.budgets import Budgets
from tests.simulation.agents.busy import Busy
from tests.simulation.agents.clerks import Clerks
from tests.simulation.agents.hurries import Hurries
from tests.simulation.agents.owners import Owner
from tests.simulation.agents.senders import Senders
from tests.simulation.agents.sleepers import Sleepers
from tests.simulation.agents.teams import Teams
from tests.simulation.agents.thinkers import Thinkers
from tests.simulation.machine.computer import FUNCTIONS
from tests.simulation.parts import Surroundings, WorldPart
from tests.simulation.people.lines import Line
from tests.simulation.platforms.messages import Place
from tests.simulation.platforms.telegram import Telegram

_SHARES = {"thinkers": 0.25, "budgets": 0.12, "clerks": 0.15, "teams": 0.15, "sleepers": 0.1}
"""How much of all worlds has what not every world has. A budget is of agents that ask models."""

_HAVE_MORE, _MORE_BY = 0.35, "more 1921"  # by a chance of its own, which leaves the other worlds as they were
_MORE = {"busy": 0.5, "senders": 0.35, "moody models": 0.4, "pruning": 0.4, "regretted files": 0.4, "hurries": 0.5}
"""How much of those worlds has what the others never have. Models have moods where agents ask them."""

_LATE = (
    "shared.agents.providers.echo",
    "shared.channels.discord.channel",
    "shared.channels.telegram.channel",
    "shared.rest.endpoints",
    "shared.rest.http.authorization",
    "shared.roster.roster_file",
)  # what functions import when they first need it


def chosen(seed: int) -> set[str]:
    """Which agents the world of this seed has beyond the one that repeats."""
    place = random.Random(f"{seed} agents").random()
    found = {name for name in ("thinkers", "budgets") if place < _SHARES[name]}
    found |= {
        name for name in ("clerks", "teams", "sleepers") if random.Random(f"{seed} has {name}").random() < _SHARES[name]
    }
    more = random.Random(f"{seed} {_MORE_BY}")
    if more.random() < _HAVE_MORE:
        found |= {name for name, share in _MORE.items() if more.random() < share}
    found -= {"senders", "regretted files"} if "pruning" in found else set()  # files are dated by another clock
    return found | ({"thinkers"} if "moody models" in found else set())


def load(seed: int) -> None:
    """Import what its processes will, before the world has a Python of its own: once, and not once in each world."""
    for name in (*(f"functions.{each}" for each in FUNCTIONS), *_LATE):
        import_module(name)
    if "thinkers" in chosen(seed):
        models.load()


def agents_of(world: Surroundings, telegram: Telegram, seed: int) -> tuple[list[WorldPart], dict[Place, list[Line]]]:
    """The agents of this world, and what people write to them."""
    kinds = chosen(seed)
    found: list[WorldPart] = []
    written: dict[Place, list[Line]] = {}
    if "thinkers" in kinds:
        found.append(thinkers := Thinkers(world, is_moody="moody models" in kinds))
        written |= thinkers.written
        found += [Budgets(world, thinkers)] if "budgets" in kinds else []
    if kinds & {"budgets", "clerks"}:
        found.append(owner := Owner(world, telegram))
        if "clerks" in kinds:
            found.append(clerks := Clerks(world, owner))
            written |= clerks.written
    if "teams" in kinds:
        found.append(teams := Teams(world))
        written |= teams.written
    if "sleepers" in kinds:
        found.append(sleepers := Sleepers(world))
        written |= sleepers.written
    if "busy" in kinds:
        found.append(busy := Busy(world, telegram))
        written |= busy.written
    if "senders" in kinds:
        found.append(senders := Senders(world, telegram))
        written |= senders.written
    if "hurries" in kinds:
        found.append(hurries := Hurries(world))
        written |= hurries.written
    return found, written
