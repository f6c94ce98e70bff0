"""``emulator doctor``: what a newcomer and an operator need on this machine, each with what mends it."""

import os
from collections.abc import Iterator
from typing import Annotated

import typer

from emulator.base import environment
from emulator.base.clock_page import followed
from emulator.base.errors import EmulatorError, ExitCode
from emulator.base.hints import STATE
from emulator.base.state import StateFolder, find_running
from emulator.cli import output
from emulator.cli.checks import accounts, gaps, installation, machine, models, proof, running, sounds
from emulator.cli.checks.finding import Finding, ok, problem
from emulator.cli.commands import frame
from emulator.cli.output import result
from shared.channels import registry
from shared.core.settings import Settings
from shared.core.time import clock

_GATEWAY_PORT = 8080


Security = Annotated[bool, typer.Option("--security", help="Name each security gap of this machine.")]


def doctor(state: frame.State = None, security: Security = False, as_json: frame.Json = False) -> None:
    """Check what Postroom needs here. Ends with 1 if there is a problem; a warning is none. Nothing has to run."""
    folder = StateFolder(state or STATE)
    with followed(None if os.environ.get("POSTROOM_DB") else folder.clock):
        found = list(_gaps(folder) if security else _findings(folder))
    problems = sum(each.level == "problem" for each in found)
    warnings = sum(each.level == "warning" for each in found)
    lines = [line for each in found for line in _lines(each)]
    count = f"{problems} problem{'' if problems == 1 else 's'}, {warnings} warning{'' if warnings == 1 else 's'}"
    facts = {"ok": not problems, "checks": [each._asdict() for each in found]}
    output.write(result(facts, *lines, count), as_json=as_json)
    raise typer.Exit(ExitCode.FAILED if problems else 0)


def _lines(found: Finding) -> Iterator[str]:
    yield f"{found.level:<8} {found.subject:<11} {found.says}"
    if found.mend is not None:
        yield f"{'':<20} to fix it: {found.mend}"


def _gaps(state: StateFolder) -> Iterator[Finding]:
    system = running.find(state, os.environ)
    own = os.environ.get("POSTROOM_DB")
    files = [] if own else environment.read_files(system.project)
    environ = system.environ if own else running.settings_of_emulator(system, files)
    registry.import_all()
    chosen = installation.load(environ)
    if not isinstance(chosen, Settings):
        yield chosen
        return
    path = state.database if own is None else chosen.db
    about, agents = installation.database(path)
    yield from gaps.findings(chosen, agents, is_of_emulator=own is None)
    yield about
    yield installation.token(chosen, agents)


def _findings(state: StateFolder) -> Iterator[Finding]:
    """Of the emulator of this state folder, or of the installation whose database POSTROOM_DB names."""
    system = running.find(state, os.environ)
    own = os.environ.get("POSTROOM_DB")
    try:
        files = [] if own else environment.read_files(system.project)
    except EmulatorError as error:
        yield problem("settings", str(error), "correct .env")
        files = []
    environ = system.environ if own else running.settings_of_emulator(system, files)
    registry.import_all()  # each adapter has settings of its own
    yield from installation.settings(files)
    if system.name is not None:
        yield ok("settings", f"those of {system.name}, which runs; variables of this shell don't count")
    chosen = installation.load(environ)
    if not isinstance(chosen, Settings):
        yield chosen
        return
    yield from installation.contradictions(chosen, of_emulator=own is None)
    is_running = own is None and find_running(state) is not None
    path = state.database if own is None else system.project / chosen.db
    yield from machine.findings(os.environ, path.parent, chosen.leash, None if own or is_running else _GATEWAY_PORT)
    about, agents = installation.database(path)
    yield about
    url = environ.get("POSTROOM_REPLICA_URL")
    yield installation.replica(chosen, state.s3 if own is None else None, is_running=is_running, url=url)
    at_ms = installation.instant_ms(path)
    if (proven := proof.finding(path, now_ms=at_ms)) is not None:
        yield proven
    yield from installation.agents(agents)
    yield from installation.state(path, chosen, now_ms=at_ms)
    known = models.load(environ)
    if isinstance(known, Finding):
        yield known
    else:
        yield from models.findings(known, agents, now_ms=clock.now_ms())
        yield from sounds.findings(chosen, known, agents)
    yield installation.token(chosen, agents)
    yield from accounts.findings(path, environ, of_emulator=own is None)
