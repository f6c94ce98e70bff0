"""The start of opencode for a turn. Its config goes by its environment, with the turn's token, which is good only while
the turn runs. Its home is in the session's folder: it keeps its sessions in a database there."""

import asyncio
import json
import os
import re
from typing import Any, NamedTuple

from shared.agents import briefing, leftover_processes, own_files, session_homes, tool_servers
from shared.agents.access import ProgramAccess
from shared.agents.base import Failed, Turn, session_folder
from shared.agents.programs import containment, installed
from shared.agents.programs.containment import Containment, GatewaySocket, ProgramCommand
from shared.agents.programs.installed import Installed
from shared.agents.providers.opencode import config as opencode_config
from shared.agents.providers.opencode.config import OpencodeConfig
from shared.agents.tool_servers import ToolServer
from shared.core.errors import ConfigInvalid

TESTED = "1.18.33"
INSTALL = f"npm install -g opencode-ai@{TESTED}"

_OURS = "postroom"  # the name of the models, of the tools and of the agent
_PORT = 8788  # of the gateway, inside a leash
_PASSED_ON = ("PATH", "LANG", "TZ")
_SESSION = re.compile(r"ses_[A-Za-z0-9]{1,64}")
_OFF = ("AUTOUPDATE", "MODELS_FETCH", "DEFAULT_PLUGINS", "LSP_DOWNLOAD", "CLAUDE_CODE", "PRUNE")
_PERMISSIONS = {
    "none": {"*": "deny", f"{_OURS}_*": "allow"},
    "files": {
        "*": "deny", f"{_OURS}_*": "allow", "read": "allow", "edit": "allow", "glob": "allow", "grep": "allow",
        "list": "allow", "external_directory": "deny",
    },
    "all": {"*": "allow", "question": "deny", "external_directory": "allow"},
}  # fmt: skip


class OpencodeLaunch(NamedTuple):
    """Ready to start."""

    command: ProgramCommand
    held: Containment


def look(config: OpencodeConfig) -> Installed:
    """Whether opencode is installed, and in which version."""
    return installed.look("opencode", TESTED, INSTALL, config.program)


async def prepare(turn: Turn) -> OpencodeLaunch | Failed:
    """Find the program and open its way out.

    Raises:
        ConfigInvalid: the config is wrong, or there is no key.
        OSError: a file can't be written.
    """
    config = opencode_config.read(turn.config)
    held = await containment.found(turn.leash)
    _check(config, held, turn)
    tool_servers.check_leash(turn.tool_servers, held)
    found = await asyncio.to_thread(look, config)
    if found.path is None or found.why_not is not None:
        return Failed(f"opencode can't be used: {found.why_not}", retryable=False, code="not_installed")
    installed.tell(found)
    if turn.doors is None:
        raise ConfigInvalid("opencode needs the gateway, which only dispatch has")
    access = await turn.doors.open(config.models, has_sandbox=held.is_leash)
    home = own_files.make_folder(turn.folder, f"{session_folder(turn.session)}/opencode")
    environment = _environment(turn, str(home), settings(config, turn, access))
    words = [str(found.path), *_words(turn)]
    named = containment.readable_paths(words[:1], config.readable, environment, turn.private)
    shown = (*named, *tool_servers.shown_paths(turn.tool_servers, environment, turn.private))
    gateway = GatewaySocket(access.socket, _PORT) if access.url is None else None
    command = ProgramCommand(words, turn.folder, environment, shown, gateway)
    return OpencodeLaunch(session_homes.at_home(command, turn, config.shared), held)


def settings(config: OpencodeConfig, turn: Turn, access: ProgramAccess) -> dict[str, Any]:
    """opencode's own config. Source: opencode.ai/docs/config, and what 1.18.33 does."""
    base = access.url or f"http://127.0.0.1:{_PORT}"
    model = f"{_OURS}/{turn.model}"
    return {
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,
        "enabled_providers": [_OURS],
        "model": model,
        "small_model": model,
        "permission": _PERMISSIONS[config.tools] | _permissions_of_servers(turn),
        "default_agent": _OURS,
        "agent": {_OURS: {"mode": "primary", "prompt": briefing.text(turn, writes_files=True)}},
        "provider": {
            _OURS: {
                "npm": "@ai-sdk/openai-compatible",
                "name": _OURS,
                "options": {"baseURL": base + access.models, "apiKey": access.token},
                "models": {turn.model: {"name": turn.model}},
            }
        },
        "mcp": {
            **{each.name: _tool_server(each, turn) for each in turn.tool_servers},
            _OURS: {
                "type": "remote",
                "url": base + access.tools,
                "headers": {"Authorization": f"Bearer {access.token}"},
                "oauth": False,
                "timeout": turn.limits.tool_ms,
            },
        },
    }


def _permissions_of_servers(turn: Turn) -> dict[str, str]:
    """Of a server's tools, those that its approver saw; the last rule that fits counts."""
    found: dict[str, str] = {}
    for each in turn.tool_servers:
        found |= {f"{each.name}_*": "deny"} | {f"{each.name}_{tool}": "allow" for tool in each.tools}
    return found


def _tool_server(server: ToolServer, turn: Turn) -> dict[str, Any]:
    return {"type": "local", "command": list(server.command), "enabled": True, "timeout": turn.limits.tool_ms}


def continues(continuation: str | None) -> str | None:
    """The session to go on in; None where *continuation* is of another provider."""
    return continuation if continuation is not None and _SESSION.fullmatch(continuation) else None


def _check(config: OpencodeConfig, held: Containment, turn: Turn) -> None:
    if config.tools != "none" and not held.is_leash:
        raise ConfigInvalid(
            f"'tools': {config.tools!r} is for programs on a leash only, and there is none here ({held.why_no_leash}); "
            "install bubblewrap, or set it to 'none'"
        )
    if turn.model is None:
        raise ConfigInvalid(
            "opencode has no model of its own: name one, such as `emulator agents set NAME --model llama3.2`"
        )


def _words(turn: Turn) -> list[str]:
    session = continues(turn.continuation)
    goal = [f"--session={session}"] if session is not None else []
    return ["run", "--pure", "--format", "json", "--title", "Postroom", "--agent", _OURS, *goal]


def _environment(turn: Turn, home: str, config: dict[str, Any]) -> dict[str, str]:
    found = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    found |= {f"OPENCODE_DISABLE_{name}": "1" for name in _OFF}
    found |= {"HOME": home, "POSTROOM_AGENT_ID": turn.agent, "OPENCODE_CONFIG_CONTENT": json.dumps(config)}
    found[leftover_processes.MARK] = turn.token
    return found
