"""What an agent of the provider ``opencode`` may say in its ``config``."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from shared.agents import config_check
from shared.agents.host_access import HostAccess
from shared.agents.session_homes import SharedFolder


class OpencodeConfig(HostAccess):
    """The agent's ``config``, checked.

    Attributes:
        program: the path of the program; None: as it is installed.
        tools: of its own: none; files in its folder; or all, with a shell. On a leash only.
        models: whose: OpenAI's, or those of ``POSTROOM_LOCAL_MODELS_URL``; by chat completions.
        readable: absolute paths that a leash shows read-only.
        shared: whether turns may write in the folder that all sessions of the agent share.
    """

    program: str | None = None
    tools: Literal["none", "files", "all"] = "none"
    models: Literal["openai", "local"] = "local"
    readable: list[str] = Field(default=[])
    shared: SharedFolder = "write"


def read(config: Mapping[str, Any]) -> OpencodeConfig:
    """The checked config.

    Raises:
        ConfigInvalid: says which entry is wrong, and why.
    """
    return config_check.checked(OpencodeConfig, "opencode", config)
