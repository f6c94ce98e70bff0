"""Gaps in what protects Postroom from its agents' programs and from other people, as far as they stand open here."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from emulator.base import environment
from emulator.cli.checks import machine
from emulator.cli.checks.finding import Finding, ok, problem, warning
from emulator.cli.checks.installation import StoredAgent
from shared.agents import registry
from shared.agents.programs import containment, listeners, sandbox, syscalls
from shared.core.settings import Settings


def findings(chosen: Settings, agents: Sequence[StoredAgent], *, is_of_emulator: bool) -> Iterator[Finding]:
    """A line for each: what is open and what closes it, or that it is closed."""
    yield from leash(chosen)
    yield user(os.geteuid())
    yield new_chats(chosen, is_of_emulator=is_of_emulator)
    yield from env_files(Path.cwd())
    yield from shells(agents)
    yield from shared_folders(agents)


def leash(chosen: Settings) -> Iterator[Finding]:
    """What holds agents' programs in, and each part of it that this machine lacks."""
    yield machine.leash(chosen.leash)
    if chosen.leash == "auto":
        says = "programs start without a leash where it stops working, such as after an update of the system"
        yield warning("leash", says, "echo POSTROOM_LEASH=required >> .env, and start again")
    if containment.why_no_leash(chosen.leash) is not None:
        return
    if not syscalls.program():
        says = f"no filter of system calls is known for {os.uname().machine}"
        yield warning("leash", says, "run on x86_64 or aarch64")
    if "--size" not in containment.bubblewrap_help():
        says = "this bubblewrap sets no limit to /tmp: a program can fill the memory"
        yield warning("leash", says, "install bubblewrap 0.7 or newer")
    if not (sandbox.is_supported() and listeners.is_supported()):
        says = "a Python of ours runs inside each sandbox with a way out, because this host refuses the safer method"
        yield warning("leash", says, "install bubblewrap 0.5 or newer, and allow setns")


def user(uid: int) -> Finding:
    """Root has what a sandbox must hide."""
    if uid != 0:
        return ok("user", "Postroom does not run as root")
    says = "Postroom runs as root: a fault in the leash is root's, and no limit of processes applies to a program"
    return warning("user", says, "run it as a user of its own: docs/operations.md")


def new_chats(chosen: Settings, *, is_of_emulator: bool) -> Finding:
    """Whether a stranger has an agent at once."""
    if chosen.new_chats == "wire" and not is_of_emulator:
        says = "anybody who finds the bot talks to the default agent at once (POSTROOM_NEW_CHATS=wire)"
        return warning("strangers", says, "set POSTROOM_NEW_CHATS=ask")
    whom = "the emulator's own people" if chosen.new_chats == "wire" else "people whom you let in"
    return ok("strangers", f"{whom} talk to agents (POSTROOM_NEW_CHATS={chosen.new_chats})")


def env_files(folder: Path) -> Iterator[Finding]:
    """They hold tokens."""
    for name in environment.FILES:
        path = folder / name
        if path.exists() and path.stat().st_mode & 0o077:
            says = f"{name} can be read by other users of this machine, and contains tokens"
            yield problem("settings", says, f"chmod 600 {name}")


def shells(agents: Sequence[StoredAgent]) -> Iterator[Finding]:
    """Agents whose model runs commands: who may talk to them may run commands in their sandbox."""
    for agent in agents:
        if agent.config.get("tools") == "all" and agent.provider in registry.PROGRAMS:
            says = f"{agent.id} has a shell: each person who may talk to it can have commands run, in its sandbox"
            yield warning("agent", says, f"give {agent.id} the tools 'files' or 'none' where strangers may write")


def shared_folders(agents: Sequence[StoredAgent]) -> Iterator[Finding]:
    """What one person's turn writes there, another person's turn reads."""
    for agent in agents:
        if agent.provider in registry.PROGRAMS and agent.config.get("shared", "write") == "write":
            says = f"all sessions of {agent.id} may write in its folder 'shared'"
            yield warning(
                "agent", says, f'put "shared": "read" into the config of {agent.id} where strangers may write'
            )
