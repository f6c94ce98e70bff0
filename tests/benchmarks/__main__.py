"""``make bench``: measures every line in one run and writes the table, with its bars, to docs/benchmarks.md.

``python -m tests.benchmarks [name …] [--quick]`` runs some of it and only prints. A name is a module, such as
``queue``, one of its lines, such as ``queue.enqueue``, or a folder, such as ``spark``.
"""

import argparse
import contextlib
import importlib
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.benchmarks.harness import report
from tests.benchmarks.harness.measure import Line, Scale

_DOCS = Path("docs/benchmarks.md")
SECTIONS = {
    "1. The queue": ("queue", "writers", "processes", "replicated"),
    "2. Webhook to reply, real processes": ("webhook", "turns", "stream"),
    "3. Growth": ("growth", "upkeep"),
    "4. Many": ("many", "desk", "recall", "size"),
    "5. Replicas and Spark": ("spark.copies", "spark.queries", "spark.marts", "spark.streams", "spark.starts"),
    "6. The emulator": ("emulated",),
    "7. Agents": ("agents.single", "agents.tools", "agents.models", "agents.many", "agents.real"),
}

Measure = Callable[[Scale], Iterator[Line]]


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and after a whole run write the table."""
    options = _parse(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    last = report.figures(_DOCS.read_text("utf-8"))
    # Not the system's temporary folder: that may be memory, where FULL costs nothing.
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=options.folder)).absolute()
    try:
        scale = _scale(folder, options)
        sections = (_section(title, scale, options.names, last) for title in SECTIONS)
        text = report.head(scale) + "".join(sections) + report.NOTES
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not options.names and not options.quick:
        _DOCS.write_text(text, "utf-8")
    sys.stdout.write(text)
    return 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    known = ", ".join(module for modules in SECTIONS.values() for module in modules)
    parser.add_argument("names", nargs="*", help=f"what to run: {known}, or one line such as queue.enqueue")
    parser.add_argument("--quick", action="store_true", help="a short run; its figures prove nothing")
    parser.add_argument("--rows", type=int, help="how many finished rows the grown database has (10 million)")
    parser.add_argument("--messages", type=int, help="how many messages the large history for Spark has (5 million)")
    parser.add_argument("--rounds", type=int, help="how many rounds (5)")
    parser.add_argument("--folder", type=Path, default=Path("out/benchmarks"), help="where, on a real disk")
    return parser.parse_args(arguments)


def _scale(folder: Path, options: argparse.Namespace) -> Scale:
    quick = options.quick
    return Scale(
        folder=folder,
        cache=options.folder.absolute(),
        rounds=options.rounds or (2 if quick else 5),
        slice_s=0.05 if quick else 0.25,
        load_s=0.5 if quick else 2.0,
        soak_s=20.0 if quick else 600.0,
        rows=options.rows or (100_000 if quick else 10_000_000),
        is_quick=quick,
        messages=options.messages,
    )


def _section(title: str, scale: Scale, names: Sequence[str], last: Mapping[str, float]) -> str:
    lines: list[Line] = []
    for name, measure in _wanted(SECTIONS[title], names):
        begun = time.monotonic()
        for measured in _lines(name, measure, scale):
            line = report.compared(measured, last)
            lines.append(line)
            sys.stderr.write(report.row(line) + "\n")
        sys.stderr.write(f"  ({name}: {time.monotonic() - begun:.0f} s)\n")
    return "\n" + report.section(title, lines) if lines else ""


def _wanted(modules: Sequence[str], names: Sequence[str]) -> Iterator[tuple[str, Measure]]:
    for module in modules:
        folder = module.partition(".")[0]
        measures: Sequence[Measure] = importlib.import_module(f"tests.benchmarks.{module}").LINES
        for measure in measures:
            name = f"{module}.{measure.__name__}"
            if not names or {module, name, folder}.intersection(names):
                yield name, measure


def _lines(name: str, measure: Measure, scale: Scale) -> Iterator[Line]:
    """The lines of a measure; a measure that breaks gives a line that says so, and the others go on."""
    lines = measure(scale)
    while True:
        try:
            line = next(lines, None)
        except Exception as error:  # noqa: BLE001 - the boundary: the error goes to stderr and to the table
            traceback.print_exc()
            line = Line(name, "not measured", is_met=False, reason=f"it failed: {type(error).__name__}: {error}")
        if line is None:
            return
        yield line


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:]))
