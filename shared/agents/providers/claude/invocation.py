"""How the program ``claude`` is started for a turn: its command line, its environment, and its input.

Its command line has no text from outside: the prompt goes over standard input. Its environment has only the variables
that are named here. It has no key: the gateway takes the turn's token in place of one.

Source: code.claude.com/docs/en/cli-reference; what the words do was tried with 2.1.330.
"""

import base64
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shared.agents import briefing, leftover_processes, own_files, session_homes, skills, tool_servers
from shared.agents.access import PermissionAnswer, ProgramAccess
from shared.agents.base import Attachment, Turn, session_folder
from shared.agents.programs import containment
from shared.agents.programs.containment import GatewaySocket, ProgramCommand
from shared.agents.providers.claude.config import AskLevel, ClaudeConfig, ToolLevel

SERVER = "postroom"  # the name of our MCP server

_PORT = 8787  # of the gateway, inside a sandbox
_PASSED_ON = ("PATH", "LANG", "TZ")
_SESSION = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FILES = ("Read", "Edit", "Write", "NotebookEdit", "Glob", "Grep")
# Its other tools (messages, schedules, questions) do what ours do, out of sight of the rows.
_TOOLS: Mapping[ToolLevel, tuple[str, ...]] = {"none": (), "files": _FILES, "all": (*_FILES, "Bash", "TodoWrite")}
_ASKED: Mapping[AskLevel, tuple[str, ...]] = {
    "never": (), "beyond": (), "shell": ("Bash",), "changes": ("Bash", "Edit", "Write", "NotebookEdit"),
}  # fmt: skip
_QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "ENABLE_TOOL_SEARCH": "false",  # else our tools are hidden behind a search
    "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",  # else "@/etc/hostname" in a message is read into the prompt
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_MAX_RETRIES": "2",
    "MCP_TIMEOUT": "20000",
}
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_PDF = "application/pdf"
_LARGEST_BLOCK = 5 * 1024 * 1024  # bytes of a file; the model's host takes no more in one image
_SETTINGS = json.dumps({"cleanupPeriodDays": 3650})  # else it deletes its sessions after 30 days


def command(program: Path, config: ClaudeConfig, turn: Turn, access: ProgramAccess) -> ProgramCommand:
    """How *program* is started for *turn*.

    Raises:
        ConfigInvalid: a path of the config is missing, or shows what is private.
        OSError: its files can't be written.
    """
    words = [str(program), *_words(config, turn, access)]
    environment = _environment(turn, access)
    named = containment.readable_paths(words[:1], config.readable, environment, turn.private)
    shown = (*named, *tool_servers.shown_paths(turn.tool_servers, environment, turn.private))
    gateway = GatewaySocket(access.socket, _PORT) if access.url is None else None
    return session_homes.at_home(ProgramCommand(words, turn.folder, environment, shown, gateway), turn, config.shared)


def continues(continuation: str | None) -> str | None:
    """The session to continue; None if *continuation* is another provider's."""
    return continuation if continuation is not None and _SESSION.fullmatch(continuation) else None


def question(content: Sequence[Mapping[str, Any]]) -> bytes:
    """A line for its standard input. ``client_composed``: it looks for no command or file name in the text."""
    return _line(content)


def further(text: str, name: str) -> bytes:
    """A line for a running turn. *name*: the program uses it to tell what it did with the line."""
    return _line([{"type": "text", "text": text}], uuid=name)


def permission(number: str, answer: PermissionAnswer) -> bytes:
    """The answer to its question *number*. A yes names no input, so the program runs the one that it showed."""
    decision = {"behavior": "allow"} if answer.is_allowed else {"behavior": "deny", "message": answer.reason}
    response = {"subtype": "success", "request_id": number, "response": decision}
    return json.dumps({"type": "control_response", "response": response}).encode() + b"\n"


def refusal(number: str) -> bytes:
    """The answer to a request of the program that Postroom does not serve."""
    response = {"subtype": "error", "request_id": number, "error": "Postroom does not serve this"}
    return json.dumps({"type": "control_response", "response": response}).encode() + b"\n"


def _line(content: Sequence[Mapping[str, Any]], **more: str) -> bytes:
    message = {"role": "user", "content": list(content)}
    return json.dumps({"type": "user", "client_composed": True, "message": message, **more}).encode() + b"\n"


def content(turn: Turn) -> list[dict[str, Any]]:
    """The blocks of the turn's question: the files that the model reads itself, then the prompt.

    The element around the prompt keeps it from being read as a command.
    """
    prompt = {"type": "text", "text": f"<messages>\n{turn.prompt}\n</messages>"}
    blocks = (_block(turn.folder, file) for file in turn.attachments)
    return [*(block for block in blocks if block is not None), prompt]


def _block(folder: Path, file: Attachment) -> dict[str, Any] | None:
    """An image or a PDF as a block; None: another kind, too large, or gone. The prompt names every file."""
    kind = "image" if file.media_type in _IMAGES else "document" if file.media_type == _PDF else None
    if kind is None:
        return None
    found = own_files.read_path(folder, file.path, most_bytes=_LARGEST_BLOCK)
    if found is None:
        return None
    source = {"type": "base64", "media_type": file.media_type, "data": base64.b64encode(found).decode()}
    return {"type": kind, "source": source}


def _words(config: ClaudeConfig, turn: Turn, access: ProgramAccess) -> list[str]:
    tools = _TOOLS[config.tools]
    allowed = [*([f"mcp__{SERVER}"] if turn.tools is not None else []), *_own_tools(config)]
    allowed += [] if config.ask == "changes" else _tools_of_servers(turn)
    loaded = [*tools, *(["Skill"] if turn.skills else [])]
    allowed += [f"Skill({SERVER}:{each.name})" for each in turn.skills]
    words = [
        *("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"),
        *("--include-partial-messages", "--setting-sources", "", "--settings", _SETTINGS, "--strict-mcp-config"),
        *_permissions(config, turn),
        *("--tools", ",".join(loaded), "--max-turns", str(config.max_turns)),
        # The longer prompt of its own tells it how to work with files; an agent that only talks needs none of it.
        *("--append-system-prompt-file" if tools else "--system-prompt-file", str(_instructions(turn))),
    ]
    if turn.tools is not None or turn.tool_servers:
        words += ["--mcp-config", json.dumps(_servers(access, turn))]
    if allowed:
        words += ["--allowedTools", ",".join(allowed)]
    if turn.skills:
        words += ["--plugin-dir", str(_plugin(turn))]
    if turn.model:
        words.append(f"--model={turn.model}")
    if session := continues(turn.continuation):
        words.append(f"--resume={session}")
    return words


def _own_tools(config: ClaudeConfig) -> list[str]:
    """What it may do without asking. ``files`` allows its folder only: "Edit" means every tool that writes a file."""
    asked = _ASKED[config.ask]
    if config.tools != "files":
        return [each for each in _TOOLS[config.tools] if each not in asked]
    shown = [f"Read(/{path}{below}" for path in config.readable for below in (")", "/**)")]
    return ["Read(./**)", *shown, *([] if "Edit" in asked else ["Edit(./**)"])]


def _tools_of_servers(turn: Turn) -> list[str]:
    return [f"mcp__{server.name}__{tool}" for server in turn.tool_servers for tool in server.tools]


def _permissions(config: ClaudeConfig, turn: Turn) -> tuple[str, ...]:
    """``dontAsk`` declines what is not allowed; else the program asks over its standard output, and waits."""
    if (config.tools == "none" and not turn.tool_servers) or config.ask == "never":
        return "--permission-mode", "dontAsk"
    return "--permission-mode", "default", "--permission-prompt-tool", "stdio"


def _servers(access: ProgramAccess, turn: Turn) -> dict[str, Any]:
    """Its MCP servers. It inserts the token from its environment, so that no list of processes shows it."""
    headers = {"Authorization": "Bearer ${POSTROOM_TOKEN}"}
    found: dict[str, Any] = {
        each.name: {"type": "stdio", "command": each.command[0], "args": list(each.command[1:])}
        for each in turn.tool_servers
    }
    if turn.tools is not None:
        found[SERVER] = {"type": "http", "url": _base(access) + access.tools, "headers": headers}
    return {"mcpServers": found}


def _environment(turn: Turn, access: ProgramAccess) -> dict[str, str]:
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    own = session_folder(turn.session)
    environment |= _QUIET | {
        "HOME": str(turn.folder),
        "TMPDIR": "/tmp" if access.url is None else str(own_files.make_folder(turn.folder, f"{own}/tmp")),  # noqa: S108 - its own
        "CLAUDE_CONFIG_DIR": str(own_files.make_folder(turn.folder, f"{own}/claude")),
        "XDG_CACHE_HOME": str(own_files.make_folder(turn.folder, f"{own}/cache")),  # it logs talks with its tools there
        "MCP_TOOL_TIMEOUT": str(turn.limits.tool_ms),
        "ANTHROPIC_BASE_URL": _base(access) + access.models,
        "POSTROOM_TOKEN": access.token,
        "POSTROOM_AGENT_ID": turn.agent,
        leftover_processes.MARK: turn.token,
    }
    environment["CLAUDE_CODE_OAUTH_TOKEN" if access.is_plan else "ANTHROPIC_API_KEY"] = access.token
    return environment


def _instructions(turn: Turn) -> Path:
    """The file of its instructions, which may be longer than a word of a command."""
    words = briefing.text(turn, writes_files=True)
    return own_files.write(turn.folder, f"{session_folder(turn.session)}/claude-instructions.md", words)


def _plugin(turn: Turn) -> Path:
    """The folder with the agent's skills. Each turn gets a new one, because the old one could contain hooks."""
    name = f"{session_folder(turn.session)}/claude-plugin"
    own_files.clear(turn.folder, name)
    own_files.write(turn.folder, f"{name}/.claude-plugin/plugin.json", json.dumps({"name": SERVER, "version": "1.0.0"}))
    own_files.link(turn.folder, f"{name}/{skills.FOLDER}", turn.folder / skills.FOLDER)
    return turn.folder / name


def _base(access: ProgramAccess) -> str:
    return access.url or f"http://127.0.0.1:{_PORT}"
