"""``emulator validate``: every problem of template.yaml with its place."""

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from emulator.base.terminal import escape
from emulator.cli.commands.frame import fail

Template = Annotated[Path, typer.Option(help="The file that names functions, routes and ticks.")]

_TEMPLATE = Path("template.yaml")


def validate(template: Template = _TEMPLATE) -> None:
    """Check template.yaml: print every problem with its line and column."""
    from infra.template import deployment  # late: few commands need it
    from infra.template.cloudformation import TemplateInvalid

    if not template.is_file():
        fail(f"{template} does not exist", os.EX_NOINPUT)
    begun = time.monotonic()
    try:
        found = deployment.load(template)
    except TemplateInvalid as error:
        for problem in error.problems:
            _print(str(problem))
        count = len(error.problems)
        fail(f"{count} problem{'s' if count != 1 else ''} ({_elapsed(begun)})", os.EX_CONFIG)
    _print(
        f"{template} ok: {len(found.functions)} functions, {len(found.routes)} routes, {len(found.ticks)} ticks "
        f"({_elapsed(begun)})"
    )


def _print(text: str) -> None:
    print(escape(text))  # noqa: T201


def _elapsed(begun: float) -> str:
    return f"{(time.monotonic() - begun) * 1000:.0f} ms"
