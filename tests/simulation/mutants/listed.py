"""All deliberate faults, and the table of them in docs/simulation.md."""

from tests.simulation.mutants.in_agents import AGENTS
from tests.simulation.mutants.in_api import API
from tests.simulation.mutants.in_channels import CHANNELS
from tests.simulation.mutants.in_sends import SENDS
from tests.simulation.mutants.in_storing import STORING
from tests.simulation.mutants.in_turns import TURNS
from tests.simulation.mutants.in_upkeep import UPKEEP
from tests.simulation.mutants.in_work import WORK
from tests.simulation.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (*STORING, *TURNS, *WORK, *AGENTS, *SENDS, *CHANNELS, *API, *UPKEEP)


def table() -> str:
    """In Markdown: each fault, the promise that it breaks, and what finds it."""
    rows = [f"| `{each.name}` | {each.breaks} | {_finder(each)} |" for each in MUTANTS]
    return "\n".join(["| Fault | Breaks the promise | Found by |", "|---|---|---|", *rows, ""])


def _finder(mutant: Mutant) -> str:
    if mutant.test:
        return f"`{mutant.test}`: {mutant.why}"
    return "a world" if mutant.found else "nothing yet"
