"""How codex is told what it may do: one set of settings, for a thread of the app-server (as JSON over its standard
input) or for ``codex exec`` (as a file that only this turn reads). The token goes this way too: it is in no environment
and in no argument of a program.

Source: developers.openai.com/codex/config-reference, and what 0.169.0 does.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from shared.agents import briefing
from shared.agents.base import Turn
from shared.agents.providers.codex.config import CodexConfig
from shared.agents.tool_servers import ToolServer

Settings = dict[str, Any]

_OURS = "postroom"  # the name of the models and of the tools
_CHAT = "You answer people in chats."
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SANDBOXES = {"none": "read-only", "files": "workspace-write", "all": "danger-full-access"}

# What codex does by itself, and an agent of Postroom does not want: it looks for updates and plugins in the Internet,
# waits for ever for a network, asks by tools of its own, and reads instructions and hooks from the folder.
_FEATURES_OFF = (
    "plugins", "apps", "unbounded_connection_retries", "goals", "hooks", "image_generation", "daemon_auto_start",
    "enable_request_compression", "tool_suggest", "skill_search", "sleep_tool", "shell_snapshot",
    "memories",
)  # fmt: skip


class Reach(NamedTuple):
    """The addresses of models and tools, and the token for both. *tools*: their names."""

    models: str
    tools_url: str
    token: str
    tools: tuple[str, ...] = ()


def settings(config: CodexConfig, turn: Turn, reach: Reach | None) -> Settings:
    """All settings of a turn. *reach* None: those that hold for every turn, and hold no token."""
    found: Settings = {
        "check_for_update_on_startup": False,
        "web_search": "disabled",
        "project_doc_max_bytes": 0,
        "analytics": {"enabled": False},
        "history": {"persistence": "none"},
        "skills": {"include_instructions": False, "bundled": {"enabled": False}},
        "agents": {"enabled": False},
        "tools": {"experimental_request_user_input": {"enabled": False}, "update_plan": {"enabled": False}},
        "include_apps_instructions": False,
        "shell_environment_policy": {"inherit": "core"},
        "sandbox_workspace_write": {"exclude_slash_tmp": True},
        "features": dict.fromkeys(_FEATURES_OFF, False) | {"shell_tool": config.tools != "none"},
    }
    if config.tools == "none":
        found |= {"include_permissions_instructions": False, "include_environment_context": False}
        found["features"]["view_image"] = False
    if config.effort is not None:
        found["model_reasoning_effort"] = config.effort
    if reach is not None:
        found |= _reach(turn, reach)
        found["mcp_servers"] |= {each.name: _tool_server(config, turn, each) for each in turn.tool_servers}
    return found


def _reach(turn: Turn, reach: Reach) -> Settings:
    headers = {"Authorization": f"Bearer {reach.token}"}
    models = {
        "name": _OURS,
        "base_url": reach.models,
        "wire_api": "responses",
        "http_headers": headers,
        "request_max_retries": 0,  # each of the others counts as many
        "stream_max_retries": 2,
        "stream_idle_timeout_ms": turn.limits.idle_ms,
        "supports_websockets": False,
    }
    tools = {
        "url": reach.tools_url,
        "http_headers": headers,
        "required": True,
        "default_tools_approval_mode": "approve",
        "tool_timeout_sec": turn.limits.tool_ms / 1000,
        "startup_timeout_sec": 20,
    }
    return {"model_provider": _OURS, "model_providers": {_OURS: models}, "mcp_servers": {_OURS: tools}}


def _tool_server(config: CodexConfig, turn: Turn, server: ToolServer) -> Settings:
    return {
        "command": server.command[0],
        "args": list(server.command[1:]),
        "enabled_tools": list(server.tools),
        "default_tools_approval_mode": "prompt" if config.ask == "changes" else "approve",
        "tool_timeout_sec": turn.limits.tool_ms / 1000,
        "startup_timeout_sec": 20,
    }


def thread(config: CodexConfig, turn: Turn, reach: Reach) -> Settings:
    """The parameters of ``thread/start`` and ``thread/resume``."""
    found: Settings = {
        "cwd": str(turn.folder),
        "developerInstructions": instructions(turn, reach),
        "config": settings(config, turn, reach),
        "modelProvider": _OURS,
        "approvalPolicy": approval_policy(config, has_servers=bool(turn.tool_servers)),
        "sandbox": _SANDBOXES[config.tools],
    }
    if turn.model is not None:
        found["model"] = turn.model
    if config.tools == "none":
        found["baseInstructions"] = _CHAT  # in place of 20 kB about writing code
    return found


def exec_settings(config: CodexConfig, turn: Turn, reach: Reach) -> Settings:
    """The same for ``codex exec``, which can't be asked."""
    found = settings(config, turn, reach) | {
        "developer_instructions": instructions(turn, reach),
        "approval_policy": "never",
        "sandbox_mode": _SANDBOXES[config.tools],
    }
    return found | ({"model": turn.model} if turn.model is not None else {})


def approval_policy(config: CodexConfig, *, has_servers: bool = False) -> str:
    """``on-request`` where a shell is held in: codex then asks before a command leaves it. ``untrusted`` asks more."""
    if (config.tools == "none" and not has_servers) or config.ask == "never":
        return "never"
    if config.ask == "changes":
        return "untrusted"
    return "on-request" if config.tools == "files" else "never"


def instructions(turn: Turn, reach: Reach) -> str:
    """The agent's instructions, and the names of the tools: some models see only tools that they search for by name."""
    tools = f"\n\nTools of the server {_OURS!r}: {', '.join(reach.tools)}." if reach.tools else ""
    return briefing.text(turn, writes_files=True) + tools


def toml(values: Mapping[str, Any]) -> str:
    """*values* as the text of a TOML file: texts, numbers, yes and no, lists of them, and tables of all these."""
    return "\n".join(_table(values, ())) + "\n"


def _table(values: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    plain = {name: value for name, value in values.items() if not isinstance(value, Mapping)}
    lines = [f"[{'.'.join(map(_key, path))}]"] if path and plain else []
    lines += [f"{_key(name)} = {_value(value)}" for name, value in plain.items()]
    for name, value in values.items():
        if isinstance(value, Mapping):
            lines += _table(value, (*path, name))
    return lines


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _value(name)


def _value(value: object) -> str:
    """JSON's form of a text, a number or a list is TOML's too, but for DEL, which TOML wants escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
