"""The tools by name. A new family is one file, whose ``TOOLS`` lists its tools, and one line here."""

from functools import cache
from importlib import import_module

from shared.agents.access import ToolSpec
from shared.core.errors import NotFound
from shared.turns.tools import arguments
from shared.turns.tools.base import Tool

# In this order models see them.
_FAMILIES = {
    "speaking": "shared.turns.tools.speaking",
    "media": "shared.turns.tools.media",
    "asking": "shared.turns.tools.asking",
    "by_approval": "shared.turns.tools.by_approval",
    "tasks": "shared.turns.tools.tasks",
    "teamwork": "shared.turns.tools.teamwork",
    "reading": "shared.turns.tools.reading",
    "remembering": "shared.turns.tools.remembering",
}


@cache
def _by_name() -> dict[str, Tool]:
    """All tools, imported on first use: most processes that know this registry never call one."""
    return {tool.name: tool for each in _FAMILIES.values() for tool in import_module(each).TOOLS}


def get(name: str) -> Tool:
    """The tool called *name*.

    Raises:
        NotFound: there is none; the message lists the tools.
    """
    found = _by_name().get(name)
    if found is None:
        raise NotFound(f"there is no tool {name[:64]!r}; the tools are: {', '.join(sorted(_by_name()))}")
    return found


@cache
def specs() -> tuple[ToolSpec, ...]:
    """The tools as models get them."""
    return tuple(ToolSpec(tool.name, tool.description, arguments.schema(tool)) for tool in _by_name().values())
