"""The start of codex for a turn: what is started, where, and with which access."""

import asyncio
import hashlib
import os
import re
from pathlib import Path
from typing import NamedTuple

from shared.agents import leftover_processes, own_files, session_homes, tool_servers
from shared.agents.base import Failed, Turn, session_folder
from shared.agents.programs import containment, installed
from shared.agents.programs.containment import Containment, GatewaySocket, ProgramCommand
from shared.agents.providers.codex import config as codex_config
from shared.agents.providers.codex import program, settings
from shared.agents.providers.codex.config import CodexConfig
from shared.agents.providers.codex.program import CodexProgram
from shared.agents.providers.codex.settings import Reach
from shared.core.errors import ConfigInvalid

_PORT = 8788  # of the gateway, inside a leash
_PASSED_ON = ("LANG", "TZ")
_THREAD = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class CodexLaunch(NamedTuple):
    """Ready to start.

    Attributes:
        profile: the name of the turn's settings for ``codex exec``; None: the app-server is started.
        thread: the parameters of ``thread/start`` for the app-server.
    """

    command: ProgramCommand
    held: Containment
    profile: str | None
    thread: settings.Settings


async def prepare(turn: Turn) -> CodexLaunch | Failed:
    """Find the program and open its way out.

    Raises:
        ConfigInvalid: the config is wrong, or there is no key.
        OSError: a file can't be written.
    """
    config = codex_config.read(turn.config)
    held = await containment.found(turn.leash)
    if config.tools != "none" and not held.is_leash:
        raise ConfigInvalid(
            f"'tools': {config.tools!r} is for programs on a leash only, and there is none here ({held.why_no_leash}); "
            "install bubblewrap, or set it to 'none'"
        )
    tool_servers.check_leash(turn.tool_servers, held)
    found = await asyncio.to_thread(program.look, config.program)
    if found.path is None or found.why_not is not None:
        return Failed(f"codex can't be used: {found.why_not}", retryable=False, code="not_installed")
    installed.tell(found)
    located = program.located(found.path)
    is_exec = config.mode == "exec" or (
        config.mode == "auto" and not await asyncio.to_thread(program.has_app_server, located)
    )
    access = await _open(turn, config, held)
    return await asyncio.to_thread(_write_home, turn, config, held, located, access, is_exec)


async def _open(turn: Turn, config: CodexConfig, held: Containment) -> tuple[Reach, GatewaySocket | None]:
    if turn.doors is None:
        raise ConfigInvalid("codex needs the gateway, which only dispatch has")
    access = await turn.doors.open(config.models, has_sandbox=held.is_leash)
    base = access.url or f"http://127.0.0.1:{_PORT}"
    names = tuple(tool.name for tool in turn.tools.specs()) if turn.tools is not None else ()
    gateway = GatewaySocket(access.socket, _PORT) if held.is_leash else None
    return Reach(base + access.models, base + access.tools, access.token, names), gateway


def _write_home(
    turn: Turn,
    config: CodexConfig,
    held: Containment,
    located: CodexProgram,
    access: tuple[Reach, GatewaySocket | None],
    is_exec: bool,
) -> CodexLaunch:
    """Write what codex reads from its home, which is whole before the program starts."""
    reach, gateway = access
    home = own_files.make_folder(turn.folder, _home(turn.session))
    own_files.write(
        turn.folder, f"{_home(turn.session)}/config.toml", settings.toml(settings.settings(config, turn, None))
    )
    profile = _profile(turn.session) if is_exec else None
    if profile is not None:
        text = settings.toml(settings.exec_settings(config, turn, reach))
        own_files.write(turn.folder, profile_file(turn.session, profile), text)
    environment = _environment(turn, located, home)
    words = [str(located.path), *(_exec_words(turn, profile) if profile is not None else ["app-server"])]
    named = containment.readable_paths(words[:1], config.readable, environment, turn.private)
    of_servers = tool_servers.shown_paths(turn.tool_servers, environment, turn.private)
    shown = (*located.readable, *named, *of_servers)
    has_own_sandbox = config.tools == "files"  # a bubblewrap of codex' own
    command = ProgramCommand(words, turn.folder, environment, shown, gateway, makes_sandboxes=has_own_sandbox)
    return CodexLaunch(
        session_homes.at_home(command, turn, config.shared), held, profile, settings.thread(config, turn, reach)
    )


def _home(session: str) -> str:
    """Its home, below the agent's folder."""
    return f"{session_folder(session)}/codex"


def profile_file(session: str, profile: str) -> str:
    """Where codex looks for a profile, below the agent's folder."""
    return f"{_home(session)}/{profile}.config.toml"


def _profile(session: str) -> str:
    """One for each session, which runs one turn at a time."""
    return f"session-{hashlib.sha256(session.encode()).hexdigest()[:16]}"


def continues(continuation: str | None) -> str | None:
    """The thread to go on in; None where *continuation* is of another provider."""
    return continuation if continuation is not None and _THREAD.fullmatch(continuation) else None


def _exec_words(turn: Turn, profile: str) -> list[str]:
    thread = continues(turn.continuation)
    goal = ["resume", thread] if thread is not None else []
    return ["exec", "--json", "--skip-git-repo-check", "--profile", profile, *goal, "-"]


def _environment(turn: Turn, located: CodexProgram, home: Path) -> dict[str, str]:
    found = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    path = os.environ.get("PATH", os.defpath)
    found["PATH"] = path if located.search is None else f"{located.search}{os.pathsep}{path}"
    found |= {"HOME": str(home), "CODEX_HOME": str(home), "POSTROOM_AGENT_ID": turn.agent}
    found[leftover_processes.MARK] = turn.token
    return found
