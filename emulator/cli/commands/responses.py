"""``emulator responses``: what could not be sent, and what becomes of it."""

from typing import Annotated, Any

import typer

from emulator.base import errors
from emulator.cli.client import RestClient
from emulator.cli.commands.frame import Limit, command, group
from emulator.cli.output import CommandResult, FactList, TextTable, local_time, result, shorten

app = group("Responses: what was to be said to people, and could not be.")

Id = Annotated[int, typer.Argument(metavar="RESPONSE", min=1, help="Its number in `responses list`.")]


@command(app, "list")
def list_responses(api: RestClient, limit: Limit = 100) -> CommandResult:
    """What was given up and why, newest first: it could not be sent, or nobody fetched it."""
    found = api.get("responses", "dead", limit=limit)
    table = TextTable(
        ("response", "agent", "to", "who", "said", "what", "tries", "why"),
        [
            (
                each["id"],
                each["agent"],
                f"{each['channel']} {each['platformId'] or ''}",
                each["sender"],
                local_time(each["createdAt"]),
                shorten(each["message"]),
                each["retryCount"],
                shorten(each["lastError"] or "", 100),
            )
            for each in found
        ],
        "No response was given up.",
    )
    way = (
        (f"To have one sent again: {api.command_line('responses retry RESPONSE')} (all of them: --all)",)
        if found
        else ()
    )
    return result(found, table, *way)


@command(app, "show")
def show_response(api: RestClient, response: Id) -> CommandResult:
    """One that was given up, all of it."""
    found = _dead(api, response)
    facts = {
        "response": found["id"],
        "agent": found["agent"],
        "to": f"{found['channel']} {found['platformId'] or ''}",
        "chat": found["chatId"],
        "who": " ".join(filter(None, (found["sender"], found["senderId"]))),
        "answers": found["messageId"],
        "said": local_time(found["createdAt"]),
        "tries": found["retryCount"],
        "why": found["lastError"],
        "arrived": "a part of it, which is not sent again" if found["isPartlySent"] else None,
        "what": found["message"],
    }
    return result(found, FactList(facts))


@command(app, "retry")
def retry(
    api: RestClient,
    response: Annotated[int | None, typer.Argument(metavar="[RESPONSE]", min=1, help="Its number; or --all.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All that were given up.")] = False,
) -> CommandResult:
    """Have it sent again now, with all its attempts before it; parts that have arrived are not sent twice."""
    if (response is None) is not every:
        raise errors.UsageError("which? name a response, or say --all")
    if response is not None:
        return result(api.post("responses", response, "retry"), f"Response {response} is sent again.")
    sent = api.retry_all("responses")
    count = "1 response is" if len(sent) == 1 else f"{len(sent)} responses are"
    return result({"retried": sent}, f"{count} sent again.")


@command(app, "discard")
def discard(api: RestClient, response: Id) -> CommandResult:
    """Forget what was given up: its text goes, and it can't be sent any more."""
    return result(api.delete("responses", response), f"Response {response} is forgotten.")


def _dead(api: RestClient, response: int) -> dict[str, Any]:
    for each in api.get("responses", "dead", before=response + 1, limit=1):
        if each["id"] == response:
            found: dict[str, Any] = each
            return found
    raise errors.DoesNotExist(f"no response {response} was given up; `{api.command_line('responses list')}` lists them")
