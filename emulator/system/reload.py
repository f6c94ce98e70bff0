"""Takes over what is saved while the emulator runs: code into new processes, the template into what it names."""

import asyncio
import importlib.util
from collections.abc import Iterable, Sequence
from pathlib import Path

from emulator.base.console import Console
from emulator.base.errors import EmulatorError, Misconfigured
from emulator.base.hints import relative
from emulator.processes.watch import changes
from emulator.system.components import Components, read_template
from emulator.system.functions import Function
from emulator.system.gateway import Router
from emulator.system.ticks import Ticks


class Reload:
    """Replaces what was saved, and says so; what can't be used leaves everything as it was."""

    def __init__(self, parts: Components, ticks: Ticks, console: Console) -> None:
        self._components = parts
        self._ticks = ticks
        self._console = console

    async def run(self, stop: asyncio.Event) -> None:
        """Until *stop*."""
        options = self._components.options
        try:
            async for saved in changes(options.project, options.template, stop):
                await self._saved(saved)
        except OSError as error:
            self._trouble(f"what is saved is not seen any more ({error}): start again after each change")

    async def _saved(self, saved: set[Path]) -> None:
        template = self._components.options.template
        code = saved - {template}
        try:
            if template in saved:
                await self._template_changed()
            if code:
                await self._code_changed(code)
        except (EmulatorError, OSError) as error:
            self._trouble(str(error))

    async def _code_changed(self, saved: set[Path]) -> None:
        project, functions = self._components.options.project, self._components.functions
        forget_compiled(path for path in saved if path.suffix == ".py")
        names = affected(saved, project, functions.all)
        if len(names) == len(functions.all):
            await self._components.fork_client.renew()
        await functions.reload(names, because=", ".join(sorted(relative(path, project) for path in saved)[:3]))

    async def _template_changed(self) -> None:
        """Routes and environments are taken over while running; another set of functions needs a new start."""
        parts, name = self._components, self._components.options.template.name
        found = read_template(parts.options.template)
        specs = {spec.name: spec for spec in found.functions}
        if specs.keys() != {spec.name for spec in parts.deployment.functions}:
            raise Misconfigured(f"{name} names other functions now: stop with Ctrl-C and start again")
        parts.deployment = found
        parts.gateway.router = Router(found.routes)
        for function in parts.functions.all:
            function.spec = specs[function.name]
        parts.set_environments()
        self._ticks.start(found.ticks)
        await parts.functions.reload(list(specs), because=name)

    def _trouble(self, text: str) -> None:
        self._console.happened("watch", text, level="error")


def affected(changed: Iterable[Path], project: Path, functions: Sequence[Function]) -> list[str]:
    """The functions that must be replaced when these files change: one for its own file, else all.

    What is shared may be imported late (an adapter on its first message), so the imports that a process made so far
    prove nothing; all six together take less time than it takes to look from the editor to the terminal.
    """
    own = {project / function.spec.source: function.name for function in functions}
    names = {own.get(path) for path in changed}
    if None in names:
        return [function.name for function in functions]
    return [function.name for function in functions if function.name in names]


def forget_compiled(changed: Iterable[Path]) -> None:
    """Remove the byte code of changed files: it is matched by second and size, and editors save twice in a second."""
    for path in changed:
        Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)
