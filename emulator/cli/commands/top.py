"""``emulator top``: the first page of the operators' page in a terminal, drawn anew every two seconds."""

import io
import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from emulator.base.clock_page import ClockPage, followed
from emulator.cli import client, output
from emulator.cli.client import RestClient
from emulator.cli.commands import frame
from emulator.cli.output import CommandResult, FactList, Part, TextTable, local_time, result
from shared.core.time.durations import time_span

_EVERY_S = 2.0
_BOOKS = ("answered", "context", "dead", "cancelled", "waiting", "running", "dropped", "deleted", "missing")


def top(
    once: Annotated[
        bool, typer.Option("--once", help="Print it once, as it is where the output is no terminal.")
    ] = False,
    state: frame.State = None,
    url: frame.Url = None,
    as_json: frame.Json = False,
) -> None:
    """Show what needs you, what recovers by itself, and the books of the day, live until Ctrl-C."""
    api = frame.run_or_fail(lambda: client.find(state, url))
    with followed(api.clock) as page:
        if as_json or once or not typer.get_text_stream("stdout").isatty():
            output.write(frame.run_or_fail(lambda: _read(api, page)), as_json=as_json)
            raise typer.Exit
        frame.run_or_fail(lambda: _watch(api, page))


def _watch(api: RestClient, moved: ClockPage | None) -> None:
    from rich.live import Live  # late: only a terminal needs rich
    from rich.text import Text

    with Live(screen=True, auto_refresh=False) as live:
        try:
            while True:
                page = io.StringIO()
                output.write(_read(api, moved), as_json=False, stream=page)
                live.update(Text(page.getvalue()), refresh=True)
                time.sleep(_EVERY_S)
        except KeyboardInterrupt:
            return


def _read(api: RestClient, page: ClockPage | None) -> CommandResult:
    found = api.get("overview")
    moved = [sentence[0].upper() + sentence[1:]] if page and (sentence := page.facts.sentence) else []
    return result(found, *moved, *_parts(found, now_ms=found["at"]))


def _parts(found: Mapping[str, Any], *, now_ms: int) -> Iterator[Part]:
    yield f"{found['sentence']} {found['more']}"
    for title, key in (("needs you", "needsYou"), ("recovers by itself", "mendsItself")):
        if found[key]:
            rows = [(each["title"], each["why"], _when(each, now_ms)) for each in found[key]]
            yield TextTable((title, "why", "until"), rows, "", has_lines=True)
    numbers, books = found["numbers"], found["books"]
    yield FactList(
        {
            "waiting": f"{numbers['waiting']}: {_waiting(numbers)}" if numbers["waiting"] else 0,
            "running": numbers["running"],
            "dead": f"{numbers['dead']} messages, {numbers['deadAnswers']} answers",
            "to send": numbers["sending"],
            "approvals": numbers["approvals"],
            "oldest": _oldest(numbers, now_ms),
            f"books since {local_time(books['since'])}": _books(books),
        }
    )


def _when(item: Mapping[str, Any], now_ms: int) -> str:
    return f"in {time_span(item['until'] - now_ms)}" if item["until"] is not None else ""


def _waiting(numbers: Mapping[str, Any]) -> str:
    words = {"due": "due", "paused": "for an act", "retrying": "tried again", "planned": "planned"}
    return ", ".join(f"{numbers[name]} {word}" for name, word in words.items() if numbers[name])


def _oldest(numbers: Mapping[str, Any], now_ms: int) -> str | None:
    if numbers["oldest"] is None:
        return None
    return f"{time_span(now_ms - numbers['oldest'])}, for {numbers['oldestAgent']}"


def _books(books: Mapping[str, Any]) -> str:
    parts = " + ".join(f"{books[name]} {name}" for name in _BOOKS if books[name] or name == "answered")
    return f"accepted {books['accepted']} = {parts}; they {'balance' if books['balance'] else 'DO NOT BALANCE'}"
