"""``emulator replica status``: where the replica is, how far behind, what it holds, what was proven."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from emulator.base import environment, errors
from emulator.base.errors import ExitCode
from emulator.cli import client, output
from emulator.cli.client import RestClient
from emulator.cli.commands import frame
from emulator.cli.commands.replica import bucket
from emulator.cli.output import CommandResult, FactList, TextTable, local_time, result
from shared.core.time.durations import time_span

_SNAPSHOTS = 9
_BY = {"comparison": "the comparison", "drill": "a drill", "drill_kill": "a drill that killed the writer"}


def show_status(state: frame.State = None, url: frame.Url = None, as_json: frame.Json = False) -> None:
    """Show the replica and its problems. Ends with 1 if it has one, 69 if nothing runs there."""
    command_result = frame.run_on_either(state, url, of_emulator=_of_emulator, of_postroom=_of_postroom)
    output.write(command_result, as_json=as_json)
    raise typer.Exit(command_result.code)


def _of_postroom(api: RestClient) -> CommandResult:
    facts = api.get("replica")
    if facts["reportedAt"] is None and facts["provenRestore"] is None and facts["position"] is None:
        raise errors.NotReady(
            f"{api.url} replicates nothing: no supervisor has reported, and the API knows no Litestream. Start "
            f"`python -m infra.replicate` beside it (infra/README.md)"
        )
    return describe(facts)


def _of_emulator(state: Path) -> CommandResult:
    """The API's facts, and what the bucket itself says at this moment."""
    variables = client.instance_in(state)["environment"]
    facts = client.find(state, None).get("replica")
    growth = (facts["storage"] or {}).get("growthPerDay")
    looked = bucket.look(variables["EMULATOR_REPLICA_URL"], environment.DUMMY_AWS | variables, growth)
    facts.update(looked.facts)
    facts["problems"] += looked.problems
    facts["ok"] = not facts["problems"]
    return describe(facts)


def describe(facts: Mapping[str, Any]) -> CommandResult:
    """The facts of the API for a person."""
    lines = [f"The replica is {'healthy' if facts['ok'] else 'NOT HEALTHY'}"]
    lines += [f"  problem: {problem}" for problem in facts["problems"]]
    levels = (facts["storage"] or {}).get("levels", [])
    table = TextTable(
        ("level", "files", "size", "newest position", "written"),
        [_level_row(each) for each in levels],
        "The bucket has not been checked yet.",
    )
    return result(facts, *lines, FactList(dict(_facts(facts))), table, code=0 if facts["ok"] else ExitCode.FAILED)


def _level_row(level: Mapping[str, Any]) -> tuple[str, int, str, str, str]:
    name = "copies" if level["level"] == _SNAPSHOTS else str(level["level"])
    return name, level["files"], size(level["bytes"]), level["position"], local_time(level["writtenAt"])


def _facts(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "replica", f"{facts['url'] or 'unknown'}, prefix {facts['prefix'] or '(none)'}, epoch {facts['epoch']}"
    yield "behind", _behind(facts)
    if lease := facts["lease"]:
        yield "lease", f"{lease['holder']}, until {local_time(lease['until'])}"
    if storage := facts["storage"]:
        grows = storage["growthPerDay"]
        growth = "" if grows is None else f"; it grows by {size(grows)} a day"
        prefixes = storage["oldPrefixes"]
        old = f", {prefixes} old prefix{'' if prefixes == 1 else 'es'} with them" if prefixes else ""
        yield "size", f"{size(storage['bytes'])} in {storage['files']} files{old}{growth}"
        yield "last copy", local_time(storage["lastSnapshot"]) or "none yet"
    yield "proven", _proven(facts["provenRestore"])
    if requests := facts["requests"]:
        yield "our requests", _requests(requests)


def _behind(facts: Mapping[str, Any]) -> str:
    here, there, seconds = facts["position"], facts["replicatedPosition"], facts["behindSeconds"]
    if here is None:
        return "Litestream was not asked"
    newest = facts.get("newestInBucket")
    in_bucket = "" if newest is None else f"; newest in the bucket {newest}"
    if seconds == 0:
        return f"no: position {here} is in the bucket{in_bucket}"
    waits = "" if seconds is None else f", for {seconds:.1f} s"
    return f"position {here} here, {there} in the bucket{waits}{in_bucket}"


def _proven(proof: Mapping[str, Any] | None) -> str:
    if proof is None:
        return "no restore yet; to prove one: emulator replica drill --no-kill"
    took = "" if proof["restoreMs"] is None else f" in {proof['restoreMs'] / 1000:.1f} s"
    lost = f"; {proof['lostRows']} rows of the dead writer were lost" if proof["lostRows"] else ""
    return (
        f"{time_span(proof['age'] * 1000)} ago ({local_time(proof['at'])}) by {_BY[proof['by']]}: position "
        f"{proof['position']} restored{took}, {proof['rows']} rows in {proof['tables']} tables compared{lost}"
    )


def _requests(counts: Mapping[str, int]) -> str:
    names = {"puts": "PUT", "gets": "GET", "lists": "LIST", "deletes": "DELETE"}
    requests = ", ".join(f"{counts[name]} {verb}" for name, verb in names.items())
    sent, received = size(counts["sentBytes"]), size(counts["receivedBytes"])
    return f"{requests} since {local_time(counts['since'])}; {sent} sent, {received} received"


def size(count: float) -> str:
    """Bytes for a person: ``12 kB``, ``3.4 GB``."""
    sign, left = ("-" if count < 0 else ""), abs(float(count))
    for unit in ("B", "kB", "MB", "GB"):
        if left < 1000:
            return f"{sign}{left:.0f} {unit}" if left >= 100 or unit == "B" else f"{sign}{left:.1f} {unit}"
        left /= 1000
    return f"{sign}{left:.1f} TB"
