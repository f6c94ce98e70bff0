"""What an agent of the provider ``claude`` may say in its ``config``."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from shared.agents import config_check
from shared.agents.host_access import HostAccess
from shared.agents.session_homes import SharedFolder

ToolLevel = Literal["none", "files", "all"]
AskLevel = Literal["never", "beyond", "shell", "changes"]


class ClaudeConfig(HostAccess):
    """The agent's ``config``, checked.

    Attributes:
        program: the path of the program; None: as it is installed.
        tools: of its own: none; files in its folder alone; or all, with a shell. On a leash only.
        ask: an approver before it does something: never, so that what its tools do not allow is declined; what goes
            beyond its tools; also each command of its shell; also each change of a file.
        max_turns: requests to the model in one turn.
        readable: absolute paths that a leash shows read-only.
        shared: whether turns may write in the folder that all sessions of the agent share.
    """

    program: str | None = None
    tools: ToolLevel = "none"
    ask: AskLevel = "beyond"
    max_turns: int = Field(default=50, ge=1, le=1000)
    readable: list[str] = Field(default=[])
    shared: SharedFolder = "write"


def read(config: Mapping[str, Any]) -> ClaudeConfig:
    """The checked config.

    Raises:
        ConfigInvalid: says which entry is wrong, and why.
    """
    return config_check.checked(ClaudeConfig, "claude", config)
