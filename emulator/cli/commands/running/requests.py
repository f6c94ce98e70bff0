"""``emulator requests``: what went between the fake platforms and the bot, with bodies; on an emulator only."""

import json
import re
import time
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlencode

import typer

from emulator.base import errors, fakes
from emulator.cli import client
from emulator.cli.client import RestClient
from emulator.cli.commands.frame import command, group
from emulator.cli.commands.running.pytest_file import written
from emulator.cli.output import CommandResult, FactList, TextTable, local_time, result, shorten
from shared.core.text import half_characters

app = group("Requests between the fake platforms and the bot: webhooks in, calls out.")

Request = Annotated[str, typer.Argument(metavar="REQUEST", help="Its id: in-7 is a webhook, out-7 a call of the bot.")]
Account = Annotated[str | None, typer.Option(help="Of a further account, such as telegram.sales.")]
_REQUEST = re.compile(r"/(in|out)-\d{1,15}(/replay)?")
_LIMIT_S = 20.0
_EVERY_S = 0.1


@command(app, "list", takes_minus=True)
def list_requests(
    api: RestClient,
    platform: Annotated[str | None, typer.Option(help=fakes.names())] = None,
    chat: Annotated[str | None, typer.Option(help="The chat's id on its platform.")] = None,
    refused: Annotated[bool, typer.Option("--refused", help="Only those with a bad answer, or with none.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The maximum number of rows.")] = 50,
    account: Account = None,
) -> CommandResult:
    """List the newest requests, the newest last."""
    wanted = {"platform": platform, "chat": chat, "refused": 1 if refused else None, "limit": limit}
    found = _call(api, account, "GET", "", wanted)["requests"]
    rows = [
        (each["id"], local_time(each["at_ms"]), each["platform"], each["what"], each["chat"], _status(each), _why(each))
        for each in found
    ]
    columns = ("request", "when", "platform", "what", "chat", "status", "why")
    if not found:
        return result(found, "There is none yet.")
    return result(found, TextTable(columns, rows, ""), f"One of them: {api.command_line('requests show REQUEST')}")


@command(app, "show")
def show_request(api: RestClient, request: Request, account: Account = None) -> CommandResult:
    """Show one request: what was sent, and what was answered. Tokens have a mask, and long bodies are cut."""
    found = _call(api, account, "GET", f"/{request}")
    facts = {
        "request": found["id"],
        "what": f"{found['platform']} {found['what']}",
        "chat": found["chat"],
        "when": local_time(found["at_ms"]),
        "status": _status(found),
        "why": _why(found),
        "took": f"{found['took_ms']:.0f} ms",
        "because of": found.get("cause"),
        "sent": _pretty(found.get("body", found.get("params"))),
        "answered": _pretty(found["answer"]),
    }
    return result(found, FactList(facts))


@command(app, "replay")
def replay_request(api: RestClient, request: Request, account: Account = None) -> CommandResult:
    """Send a webhook again as it was, and show how the bot answers now.

    A message that it has taken already is dropped as a copy.
    """
    sent = _call(api, account, "POST", f"/{request}/replay")
    deadline = time.monotonic() + _LIMIT_S
    while time.monotonic() < deadline:
        listed = _call(api, account, "GET", "", {"platform": sent["platform"], "limit": 1000})["requests"]
        again = [each for each in listed if each.get("ref") == sent["ref"] and _number(each) > _number(sent)]
        if again:
            newest = again[-1]
            return result(
                newest, f"{newest['id']}: the bot answered {_status(newest)}, as {sent['id']} got {_status(sent)}."
            )
        time.sleep(_EVERY_S)
    raise errors.TimedOut(
        f"{request} was sent again, and the bot did not answer within {_LIMIT_S:.0f} s: "
        f"`{api.command_line('status')}` says whether it is ready"
    )


@command(app, "export")
def export_request(
    api: RestClient,
    request: Request,
    to: Annotated[Path | None, typer.Option(help="The file to write; default: test_REQUEST.py here.")] = None,
    account: Account = None,
) -> CommandResult:
    """Write a pytest that sends the webhook again, and is red until the bot takes it or its call succeeds.

    Of a call (out-…) it sends the webhook before it in its chat, and waits for the same call.
    """
    found = _call(api, account, "GET", f"/{request}")
    cause = _call(api, account, "GET", f"/{found['cause']}") if found.get("cause") else found
    if "ref" not in cause or cause["platform"] != "telegram" or not isinstance(cause["body"], dict):
        raise errors.InvalidInput(
            f"{request} has no webhook of Telegram that could be sent again; Discord's can't, as nobody can sign them "
            f"later. Look at it: `{api.command_line(f'requests show {request}')}`"
        )
    file = to or Path(f"test_{request.replace('-', '_')}.py")
    if file.exists():
        raise errors.InvalidInput(f"{file} exists already: name another file with --to")
    try:
        file.write_text(written(found, cause["body"], account), encoding="utf-8")
    except OSError as error:
        raise errors.InvalidInput(f"{file} can't be written: {error.strerror}") from None
    return result(
        {"file": str(file), "request": found["id"]},
        f"{file} is written. It is red until the fault is fixed:",
        f"  {api.command_line('exec')} -- pytest {file}",
    )


def _call(api: RestClient, account: str | None, method: str, path: str, query: dict[str, Any] | None = None) -> Any:
    """The answer of the emulator's fake platforms."""
    if api.state is None:
        raise errors.UsageError("requests are recorded by an emulator: use --state, not --url")
    if path and not _REQUEST.fullmatch(path):
        name = path.removeprefix("/").removesuffix("/replay")
        raise errors.InvalidInput(f"{name!r} is no request: `{api.command_line('requests list')}` names them")
    base = f"/accounts/{quote(account, safe='')}" if account else ""
    named = {name: half_characters.mend(str(value)) for name, value in (query or {}).items() if value is not None}
    return client.ask_platforms(
        api.state, method, f"{base}/control/requests{path}" + (f"?{urlencode(named)}" if named else "")
    )


def _status(each: dict[str, Any]) -> str:
    return str(each["status"]) if each["status"] else "none"


def _why(each: dict[str, Any]) -> str:
    return shorten(each.get("error") or (f"injected fault: {each['fault']}" if each.get("fault") else ""))


def _number(each: dict[str, Any]) -> int:
    return int(each["id"].partition("-")[2])


def _pretty(body: Any) -> str:
    return body if isinstance(body, str) else json.dumps(body, indent=2, ensure_ascii=False)
