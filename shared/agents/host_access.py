"""What an agent's config says of its models' host beyond plain questions and answers.

A host of models can search the web, fetch addresses, run code and keep files for a request. That is a way out of the
leash, so the gateway passes on only what a config names here.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, StringConstraints

ServerTool = Literal[
    "web_search", "web_fetch", "urls", "mcp", "code_execution", "file_search", "image_generation", "storage"
]
FieldName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$")]


class HostAccess(BaseModel):
    """The base of the configs of agents whose models are behind the gateway.

    Attributes:
        server_tools: what the host may do for a request. ``urls``: fetch the images and documents that it names by
            their address. ``storage``: keep answers, and use files and answers that it keeps.
        request_fields: further fields of requests, by name, that a newer program sends.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    server_tools: list[ServerTool] = []
    request_fields: list[FieldName] = []


class Allowed(NamedTuple):
    """The same, for the gateway."""

    server_tools: frozenset[str] = frozenset()
    fields: frozenset[str] = frozenset()


NOTHING = Allowed()


def allowed(config: Mapping[str, Any]) -> Allowed:
    """What a checked config allows; nothing more where its provider has no models."""
    return Allowed(frozenset(config.get("server_tools", ())), frozenset(config.get("request_fields", ())))
