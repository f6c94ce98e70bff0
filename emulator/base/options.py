"""The options of one run, from the command line."""

from dataclasses import dataclass
from pathlib import Path

from emulator.base.past_question import PastQuestion
from emulator.base.state import StateFolder


@dataclass(frozen=True, slots=True)
class RunOptions:
    """``is_kept``: the state folder stays when the emulator stops; ``relay``: Discord's Gateway is relayed too;
    ``past``: the database is this position of a replica.
    """

    project: Path
    template: Path
    state: StateFolder
    port: int = 8080
    watch: bool = True
    is_kept: bool = True
    relay: bool = False
    past: PastQuestion | None = None
