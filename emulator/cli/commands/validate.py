"""``emulator validate``: every problem of template.yaml, and of the files of settings, with its place."""

import time
from pathlib import Path
from typing import Annotated

import typer

from emulator.base import environment
from emulator.base.errors import EmulatorError, ExitCode
from emulator.base.terminal import escape
from emulator.cli import output
from emulator.cli.commands import frame
from emulator.cli.commands.frame import fail
from emulator.cli.output import result

Template = Annotated[Path, typer.Option(help="The file that names functions, routes and ticks.")]

_TEMPLATE = Path("template.yaml")


def validate(template: Template = _TEMPLATE, as_json: frame.Json = False) -> None:
    """Check template.yaml, and .env and .env.local beside it: print every problem with its line."""
    from infra.template import deployment, property_names  # late: few commands need it
    from infra.template.cloudformation import TemplateInvalid

    if not template.is_file():
        fail(f"{template} does not exist", ExitCode.MISSING)
    begun = time.monotonic()
    known = _variables() | property_names.OF_INFRA
    problems = _of_settings(template.parent, known)
    try:
        found = deployment.load(template, variables=known)
    except TemplateInvalid as error:
        problems = [*map(str, error.problems), *problems]
    if as_json:
        output.write(result({"ok": not problems, "problems": problems}), as_json=True)
        raise typer.Exit(ExitCode.MISCONFIGURED if problems else 0)
    for problem in problems:
        _print(problem)
    if problems:
        fail(f"{len(problems)} problem{'s' if len(problems) != 1 else ''} ({_elapsed(begun)})", ExitCode.MISCONFIGURED)
    _print(
        f"{template} ok: {len(found.functions)} functions, {len(found.routes)} routes, {len(found.ticks)} ticks "
        f"({_elapsed(begun)})"
    )


def _variables() -> frozenset[str]:
    """The names that the settings models read."""
    from infra.discord_relay.settings import RelaySettings  # noqa: F401 - its variables are known then
    from shared.channels import registry
    from shared.core.settings import known_variables
    from shared.turns.gateway.upstreams import GatewaySettings  # noqa: F401 - likewise

    registry.import_all()
    return frozenset(known_variables())


def _of_settings(project: Path, known: frozenset[str]) -> list[str]:
    """A sentence for each line of the files of settings that is wrong: its form, its name or its value."""
    try:
        files = environment.read_files(project)
    except EmulatorError as error:
        return str(error).splitlines()
    return [*environment.unknown(files, known), *filter(None, map(_of_value, files))]


def _of_value(line: environment.EnvSetting) -> str | None:
    from emulator.cli.checks import installation  # late, as above
    from emulator.cli.checks.finding import Finding

    found = installation.load(environment.for_function({}, {}, {}, [line], {}))
    return found.says.removeprefix("settings: ") if isinstance(found, Finding) else None


def _print(text: str) -> None:
    print(escape(text))  # noqa: T201


def _elapsed(begun: float) -> str:
    return f"{(time.monotonic() - begun) * 1000:.0f} ms"
