"""What an agent of the provider ``codex`` may say in its ``config``."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator

from shared.agents import config_check
from shared.agents.host_access import HostAccess
from shared.agents.session_homes import SharedFolder


class CodexConfig(HostAccess):
    """The agent's ``config``, checked.

    Attributes:
        program: the path of the program; None: as it is installed.
        tools: of its own: none; files in its folder, with a shell that codex holds in; or all. On a leash only.
        ask: an approver before it does something: never, so that it is declined; what would leave its sandbox; also
            each command and change of files that is not known to only read. Not by ``codex exec``, which can't be
            answered.
        models: whose: OpenAI's, or those of ``POSTROOM_LOCAL_MODELS_URL``.
        wire_api: the dialect of the models; codex speaks one only.
        effort: how long the model thinks; None: as the model does by itself.
        mode: ``app-server``; ``exec``, which can't be steered; ``auto``: ``exec`` where there is no other way.
        readable: absolute paths that a leash shows read-only.
        shared: whether turns may write in the folder that all sessions of the agent share.
    """

    program: str | None = None
    tools: Literal["none", "files", "all"] = "none"
    ask: Literal["never", "beyond", "changes"] = "beyond"
    models: Literal["openai", "local"] = "openai"
    wire_api: str = "responses"
    effort: Literal["minimal", "low", "medium", "high", "xhigh"] | None = None
    mode: Literal["auto", "app-server", "exec"] = "auto"
    readable: list[str] = Field(default=[])
    shared: SharedFolder = "write"

    @field_validator("wire_api")
    @classmethod
    def _responses(cls, dialect: str) -> str:
        if dialect != "responses":
            raise ValueError(
                f"codex speaks the responses dialect only, not {dialect!r}: for a server of chat completions, take the "
                "provider 'api' or 'opencode'"
            )
        return dialect


def read(config: Mapping[str, Any]) -> CodexConfig:
    """The checked config.

    Raises:
        ConfigInvalid: says which entry is wrong, and why.
    """
    return config_check.checked(CodexConfig, "codex", config)
