"""The ``config`` of an agent of the provider ``api``."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Literal

from pydantic import Field, model_validator

from shared.agents import config_check
from shared.agents.host_access import HostAccess

INSTALL = "pip install -e '.[api]'"

Dialect = Literal["chat", "responses", "messages"]


class ApiConfig(HostAccess):
    """What an agent's config may have.

    Attributes:
        models: whose models: ``anthropic``, ``openai``, or ``local`` (any server, ``POSTROOM_LOCAL_MODELS_URL``).
        dialect: ``messages`` of Anthropic; ``chat`` (the default of the others) or ``responses`` of OpenAI.
        max_requests: requests of the model in one turn, each tool call being another one; a loop ends there.
        max_tokens: of one answer; None: what the model's host says.
        history_bytes: of the session that the model is given again; the oldest turns go first.
    """

    models: Literal["anthropic", "openai", "local"]
    dialect: Dialect = "chat"
    max_requests: int = Field(default=30, ge=1, le=1000)
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    history_bytes: int = Field(default=200_000, ge=1000, le=10_000_000)

    @model_validator(mode="before")
    @classmethod
    def _with_dialect(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("models") == "anthropic":
            return {"dialect": "messages", **given}
        return given

    @model_validator(mode="after")
    def _known_together(self) -> "ApiConfig":
        if (self.models == "anthropic") != (self.dialect == "messages"):
            raise ValueError("the dialect 'messages' is that of the models 'anthropic', and they have no other")
        return self


def read(config: Mapping[str, Any]) -> ApiConfig:
    """The config, checked.

    Raises:
        ConfigInvalid: says which entry is wrong, and why.
    """
    return config_check.checked(ApiConfig, "api", config)


def is_installed() -> bool:
    """Whether the extra is here; imports nothing."""
    return all(find_spec(name) is not None for name in ("pydantic_ai", "openai", "anthropic"))
