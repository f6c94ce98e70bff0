"""Tool servers of an agent: programs with tools (MCP) that its own program starts, on the same leash."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from shared.agents.programs import containment
from shared.agents.programs.containment import Containment
from shared.core.errors import ConfigInvalid


class ToolServer(NamedTuple):
    """A server as its agent was given it. *tools*: the names of those that it may call."""

    name: str
    command: tuple[str, ...]
    tools: tuple[str, ...]


def check_leash(servers: Iterable[ToolServer], held: Containment) -> None:
    """Check that the servers would run on a leash.

    Raises:
        ConfigInvalid: there is none here.
    """
    names = ", ".join(each.name for each in servers)
    if names and not held.is_leash:
        raise ConfigInvalid(
            f"its tool servers ({names}) run on a leash only, and there is none here ({held.why_no_leash}): install "
            "bubblewrap, or take them from the agent (`emulator tool-servers take`)"
        )


def shown_paths(
    servers: Iterable[ToolServer], environment: Mapping[str, str], private: Iterable[Path]
) -> tuple[Path, ...]:
    """What the leash shows for them: the files that their commands name.

    Raises:
        ConfigInvalid: a command shows what is private.
    """
    hidden = tuple(private)
    return tuple(path for each in servers for path in containment.readable_paths(each.command, (), environment, hidden))
