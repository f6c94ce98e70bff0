"""Which requests are forwarded to a host of models: those with known fields, which ask the host for nothing that the
agent's config does not allow. All others are refused: an unknown field may be a way out of the leash.

Sources: https://docs.anthropic.com/en/api/messages, https://platform.openai.com/docs/api-reference
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from shared.agents.host_access import Allowed

_VERSION = re.compile(r"_\d{4}_?\d{2}_?\d{2}$")  # of a tool: web_search_20250305
_INLINE = ("base64", "text", "content")  # of a source: the bytes stand in the request
_ADDRESSES = ("image_url", "file_url", "video_url", "audio_url")
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")  # their input is what the model wrote, for the program
_DEEPEST = 64
_FURTHER = "request_fields"

Needs = tuple[str, str | None]
"""What stands in a request, and the setting that allows it; None: no setting does."""


class RequestRules(msgspec.Struct, frozen=True):
    """One dialect.

    Attributes:
        fields: that say nothing but what to answer, and how.
        server_fields: the setting that a further field needs.
        own_tools: types of tools that the program runs itself.
        server_tools: the setting that a type of a tool needs.
        said: the fields with what people, tools and the model said.
    """

    fields: frozenset[str]
    server_fields: Mapping[str, str]
    own_tools: frozenset[str]
    server_tools: Mapping[str, str]
    said: tuple[str, ...]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MESSAGES = RequestRules(
    _words(
        "cache_control context_management diagnostics effort inference_geo max_tokens messages metadata model "
        "output_config output_format service_tier speed stop_sequences stream system temperature thinking tool_choice "
        "tools top_k top_p"
    ),
    {"mcp_servers": "mcp", "container": "code_execution"},
    _words("custom bash text_editor computer memory tool_search_tool_regex tool_search_tool_bm25"),
    {"web_search": "web_search", "web_fetch": "web_fetch", "code_execution": "code_execution", "mcp_toolset": "mcp"},
    ("system", "messages"),
)

_BOTH = _words(
    "frequency_penalty metadata model parallel_tool_calls presence_penalty prompt_cache_key prompt_cache_options "
    "prompt_cache_retention reasoning safety_identifier seed service_tier stream stream_options temperature "
    "tool_choice tools top_logprobs top_p user verbosity "
    # of local servers
    "chat_template_kwargs enable_thinking format keep_alive min_p options reasoning_format repeat_penalty "
    "repetition_penalty think thinking top_k"
)

CHAT = RequestRules(
    _BOTH
    | _words(
        "audio function_call functions logit_bias logprobs max_completion_tokens max_tokens messages modalities n "
        "prediction reasoning_effort response_format stop"
    ),
    {"web_search_options": "web_search", "store": "storage", "mcp_servers": "mcp"},
    _words("function custom"),
    {},
    ("messages",),
)

RESPONSES = RequestRules(
    _BOTH
    | _words(
        "client_metadata context_management include input instructions max_output_tokens max_tool_calls text truncation"
    ),
    dict.fromkeys(("store", "previous_response_id", "conversation", "prompt", "background"), "storage"),
    _words("function custom namespace local_shell apply_patch computer computer_use_preview"),
    {
        "web_search": "web_search",
        "web_search_preview": "web_search",
        "file_search": "file_search",
        "code_interpreter": "code_execution",
        "shell": "code_execution",
        "mcp": "mcp",
        "image_generation": "image_generation",
    },
    ("instructions", "input"),
)


def why_not(rules: RequestRules, fields: Mapping[str, Any], allowed: Allowed) -> str | None:
    """The sentence for the program and the operator where the request must not be forwarded; None where it may."""
    for what, setting in (*_fields(rules, fields), *_tools(rules, fields.get("tools")), *_said(rules, fields)):
        if setting is None:
            return (
                f"Postroom's gateway does not know {what}, and passes on only what it knows: use the version of the "
                "program that docs/agents/programs.md names"
            )
        if setting == _FURTHER and what not in allowed.fields:
            return (
                f"Postroom's gateway does not know the field {what[:64]!r}, and passes on only what it knows: if it "
                "is harmless, name it in request_fields of the agent's config"
            )
        if setting != _FURTHER and setting not in allowed.server_tools:
            return (
                f"with {what} the model's host does more than answer: to allow it, name {setting!r} in server_tools "
                "of the agent's config"
            )
    return None


def _fields(rules: RequestRules, fields: Mapping[str, Any]) -> Iterator[Needs]:
    for name, value in fields.items():
        if name in rules.fields:
            continue
        if name not in rules.server_fields:
            yield name, _FURTHER
        elif value is not None and value is not False:
            yield f"the field {name!r}", rules.server_fields[name]


def _tools(rules: RequestRules, tools: Any) -> Iterator[Needs]:
    if tools is not None and not isinstance(tools, list):
        yield "tools that are no list", None
        return
    for tool in tools or ():
        kind = (tool.get("type") or "custom") if isinstance(tool, dict) else None
        name = _VERSION.sub("", kind) if isinstance(kind, str) else ""
        if name not in rules.own_tools:
            yield f"the tool of type {str(kind)[:64]!r}", rules.server_tools.get(name)
        elif "tools" in tool:
            yield from _tools(rules, tool["tools"])


def _said(rules: RequestRules, fields: Mapping[str, Any]) -> Iterator[Needs]:
    waiting: list[tuple[int, Any]] = [(0, fields.get(name)) for name in rules.said]
    while waiting:
        depth, part = waiting.pop()
        if isinstance(part, list):
            waiting += [(depth + 1, each) for each in part]
        elif isinstance(part, dict):
            yield from _part(rules, part)
            apart = ("tools", "input") if part.get("type") in _CALLS else ("tools",)
            waiting += [(depth + 1, each) for name, each in part.items() if name not in apart]
        if depth > _DEEPEST:
            yield f"a message that is nested deeper than {_DEEPEST}", None


def _part(rules: RequestRules, part: Mapping[str, Any]) -> Iterator[Needs]:
    for given, value in part.items():
        name = given.lower()  # some servers read names in any case
        if name in _ADDRESSES:
            address = value.get("url") if isinstance(value, dict) else value
            if isinstance(address, str) and not address.startswith("data:"):
                yield f"{name} with an address", "urls"
        elif name == "tools":
            yield from _tools(rules, value)
        elif name == "source" and isinstance(value, dict):
            yield from _source(value)
        elif name in ("file_id", "container_id") and value is not None:
            yield f"{name} of a message", "storage"
    if part.get("type") == "item_reference":
        yield "the item of type 'item_reference'", "storage"


def _source(source: Mapping[str, Any]) -> Sequence[Needs]:
    kind = source.get("type")
    if kind == "url" or "url" in source:
        return [("source.url of a message", "urls")]
    if kind == "file":
        return [("source.file_id of a message", "storage")]
    return [] if kind in _INLINE else [(f"source of type {str(kind)[:64]!r} of a message", None)]
