"""``emulator status``: what runs, what is not ready and what needs a person, here or in a Postroom elsewhere."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from emulator.base.errors import EmulatorError, ExitCode
from emulator.cli import client, output
from emulator.cli.client import RestClient
from emulator.cli.commands import frame
from emulator.cli.output import CommandResult, FactList, local_time, result
from shared.core.time.durations import time_span

_LIMIT_S = 2.0


def status(state: frame.State = None, url: frame.Url = None, as_json: frame.Json = False) -> None:
    """Show what runs, where, what is not ready, and what needs you. Ends with 1 if there is any, 69 if nothing runs."""
    command_result = frame.run_on_either(state, url, of_emulator=_of_emulator, of_postroom=_of_postroom)
    output.write(command_result, as_json=as_json)
    raise typer.Exit(command_result.code)


def _of_emulator(state: Path) -> CommandResult:
    instance = client.instance_in(state)
    facts = client.get_json(instance["urls"]["gateway"], "/_emulator/status", client.door_headers(instance))
    if facts is None:
        raise client.no_answer(instance, state)
    is_api_up = any(each["up"] for each in facts["functions"] if each["name"] == "api")
    known = _read_status(state) if is_api_up else {}  # the emulator has waited for an API that hangs
    facts["channels"], facts["proven"] = known.get("channels", {}), (known.get("replica") or {}).get("provenRestore")
    return result(facts, *_emulator_lines(facts), code=ExitCode.FAILED if facts["problems"] else 0)


def _troubles(facts: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"  not ready: {each}" for each in facts["notReady"])
    yield from (f"  needs you: {each}" for each in facts["needsYou"])
    yield from (f"  as you want it: {each}" for each in facts.get("asWanted", ()))


def _emulator_lines(facts: Mapping[str, Any]) -> Iterator[str]:
    ready = "ready" if facts["ready"] else "NOT READY"
    yield f"emulator[{facts['pid']}] {ready}, up {time_span(round(facts['uptime_s'] * 1000))}, state {facts['state']}"
    if facts.get("past"):
        yield f"  {facts['past']['sentence']}: {facts['past']['replica']}"
    if (facts.get("clock") or {}).get("sentence"):
        yield f"  {facts['clock']['sentence']}"
    yield from _troubles(facts)
    for name, url in facts["urls"].items():
        yield f"  {name:<11} {url}"
    for function in facts["functions"]:
        state = "up" if function["up"] else "hangs" if function["hangs"] else "down"  # why: in "not ready"
        stale = f"; stale: {function['stale']}" if function["stale"] else ""
        yield f"  {function['name']:<11} {state}, generation {function['generation']}, pid {function['pid']}{stale}"
    yield f"  {'proven':<11} {proven_line(facts['proven'])}"


def proven_line(proof: Mapping[str, Any] | None) -> str:
    """The last proven restore of the replica, in words."""
    if proof is None:
        return "no restore of the replica yet; to prove one: emulator replica drill --no-kill"
    return f"a restore of {time_span(proof['age'] * 1000)} ago was the database (emulator replica status)"


def _read_status(state: Path) -> dict[str, Any]:
    """What the API says; empty if it does not answer, which is a problem of its own."""
    try:
        found: dict[str, Any] = replace(client.find(state, None), limit_s=_LIMIT_S).get("status")
    except EmulatorError:
        return {}
    return found


def _of_postroom(api: RestClient) -> CommandResult:
    facts = api.get("health")
    proven = (api.get("status").get("replica") or {}).get("provenRestore")
    word = "NOT READY" if facts["notReady"] else "ready"
    return result(
        facts,
        f"Postroom at {api.url}: {word}",
        *_troubles(facts),
        FactList(_health(facts, proven)),
        code=0 if facts["ok"] else ExitCode.FAILED,
    )


def _health(facts: Mapping[str, Any], proven: Mapping[str, Any] | None) -> Mapping[str, Any]:
    replica = facts["replica"]
    return {
        "api": f"up, for {time_span(facts['uptime'] * 1000)}",
        **{name: "up" if each["running"] else "down" for name, each in facts["functions"].items()},
        "sweep": f"last {local_time(facts['lastSweep'])}" if facts["lastSweep"] else "has not run yet",
        "replica": "not watched by the API" if replica is None else replica["problem"] or "up to date",
        **({"proven": proven_line(proven)} if proven is not None or replica is not None else {}),
    }
