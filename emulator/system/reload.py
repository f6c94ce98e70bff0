"""Applies files that are saved while the emulator runs.

Code and settings reach new processes; the template also reaches routes and ticks.
"""

import asyncio
import importlib.util
from collections.abc import Awaitable, Iterable, Sequence
from pathlib import Path

from emulator.base import environment
from emulator.base.console import Console
from emulator.base.errors import EmulatorError, Misconfigured, first_reason
from emulator.base.hints import relative
from emulator.processes.watch import changes
from emulator.system.components import Components, read_template
from emulator.system.functions import Function
from emulator.system.gateway import Router
from emulator.system.ticks import Ticks


class Reloader:
    """Applies each saved file and reports it. An unusable file changes nothing."""

    def __init__(self, components: Components, ticks: Ticks, console: Console) -> None:
        self._components = components
        self._ticks = ticks
        self._console = console

    async def run(self, stop: asyncio.Event, *, since_s: float) -> None:
        """Watch and apply until *stop*, and apply first what was saved from *since_s* (since the epoch) to now."""
        options = self._components.options
        try:
            async for saved in changes(options.project, options.template, stop, since_s=since_s):
                await self._apply(saved)
        except OSError as error:
            self._report(f"saved files can no longer be watched ({error}): restart the emulator after each change")

    async def _apply(self, saved: set[Path]) -> None:
        options = self._components.options
        settings = saved & {options.project / name for name in environment.FILES}
        code = saved - {options.template} - settings
        if settings:
            await self._report_errors(self._apply_settings(settings))
        if options.template in saved:
            await self._report_errors(self._apply_template())
        if code:
            await self._report_errors(self._apply_code(code))

    async def _report_errors(self, part: Awaitable[None]) -> None:
        """Apply one part of what was saved. If it can't be used, the other parts still can."""
        try:
            await part
        except* (EmulatorError, OSError) as errors:
            self._report(str(first_reason(errors)))

    async def _apply_code(self, saved: set[Path]) -> None:
        project, functions = self._components.options.project, self._components.functions
        forget_compiled(path for path in saved if path.suffix == ".py")
        names = affected(saved, project, functions.all)
        if len(names) == len(functions.all):
            await self._components.fork_client.renew()
        await functions.reload(names, because=", ".join(sorted(relative(path, project) for path in saved)[:3]))

    async def _apply_settings(self, saved: set[Path]) -> None:
        """The functions start again with what the files say now."""
        components = self._components
        components.read_files()
        for sentence in components.notes_on_settings():
            self._console.note(sentence)
        because = ", ".join(sorted(path.name for path in saved))
        await components.functions.reload([each.name for each in components.functions.all], because=because)

    async def _apply_template(self) -> None:
        """Routes, ticks and environments change at once; a different set of functions needs a restart."""
        components, name = self._components, self._components.options.template.name
        found = read_template(components.options.template)
        specs = {spec.name: spec for spec in found.functions}
        if specs.keys() != {spec.name for spec in components.deployment.functions}:
            raise Misconfigured(f"{name} now names other functions: stop with Ctrl-C and start again")
        components.deployment = found
        components.gateway.router = Router(found.routes)
        for function in components.functions.all:
            function.spec = specs[function.name]
        components.set_environments()
        self._ticks.start(components.ticks)
        await components.functions.reload(list(specs), because=name)

    def _report(self, text: str) -> None:
        self._console.event("watch", text, level="error")


def affected(changed: Iterable[Path], project: Path, functions: Sequence[Function]) -> list[str]:
    """The functions that must be replaced when these files change: one for its own file, else all.

    A process may import shared code late, such as an adapter on its first message, so its imports so far prove nothing.
    Replacing all of them is fast enough (`make bench`: from an edit to serving).
    """
    own = {project / function.spec.source: function.name for function in functions}
    names = {own.get(path) for path in changed}
    if None in names:
        return [function.name for function in functions]
    return [function.name for function in functions if function.name in names]


def forget_compiled(changed: Iterable[Path]) -> None:
    """Remove the byte code of changed files.

    Python matches byte code by the second and the size of its source, and an editor may save twice in one second.
    """
    for path in changed:
        Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)
