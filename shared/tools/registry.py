"""The tools by name. A new family is one file and one line here."""

from functools import cache

from shared.agents.access import ToolSpec
from shared.core.errors import NotFound
from shared.tools import arguments, asking, reading, speaking, tasks, teamwork
from shared.tools.base import Tool

TOOLS = (*speaking.TOOLS, *asking.TOOLS, *tasks.TOOLS, *teamwork.TOOLS, *reading.TOOLS)

_BY_NAME = {tool.name: tool for tool in TOOLS}


def get(name: str) -> Tool:
    """The tool called *name*.

    Raises:
        NotFound: there is none; the message lists the tools.
    """
    found = _BY_NAME.get(name)
    if found is None:
        raise NotFound(f"there is no tool {name[:64]!r}; the tools are: {', '.join(sorted(_BY_NAME))}")
    return found


@cache
def specs() -> tuple[ToolSpec, ...]:
    """The tools as models get them."""
    return tuple(ToolSpec(tool.name, tool.description, arguments.schema(tool)) for tool in TOOLS)
