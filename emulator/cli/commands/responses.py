"""``emulator responses``: the responses that could not be sent."""

from typing import Annotated, Any, Literal

import typer

from emulator.base import errors
from emulator.cli.client import RestClient
from emulator.cli.commands import filters
from emulator.cli.commands.frame import command, group
from emulator.cli.output import CommandResult, FactList, TextTable, local_time, result, shorten

app = group("Responses that wait, and dead ones: they could not be sent to people.")

Id = Annotated[int, typer.Argument(metavar="RESPONSE", min=1, help="Its number in `responses list`.")]


@command(app, "list")
def list_responses(
    api: RestClient,
    status: Annotated[
        Literal["dead", "waiting"],
        typer.Option(help="dead: not sent, or not fetched; waiting: not sent yet."),
    ] = "dead",
    agent: filters.Agent = None,
    chat: filters.Chat = None,
    person: filters.Person = None,
    channel: filters.Channel = None,
    reason: filters.Reason = None,
    since: filters.Instant = None,
    until: filters.Until = None,
    before: filters.Before = None,
    limit: filters.Limit = 100,
) -> CommandResult:
    """List dead responses, or those that wait, newest first, each with why, until when, and what to do."""
    given = filters.given(agent, chat, person, channel, reason, since, until, before)
    path, text, attempts = ("responses", "dead"), "message", "retryCount"
    if status == "waiting":
        path, text, attempts = ("lists", "sending"), "text", "attempts"
    found = api.get(*path, limit=limit, **given)
    table = TextTable(
        ("response", "agent", "to", "recipient", "created", "text", "attempts", "why", "until"),
        [
            (
                each["id"],
                each["agent"],
                f"{each['channel']} {each.get('platformId') or each.get('chatName') or ''}".strip(),
                each["sender"],
                local_time(each["createdAt"]),
                shorten(each[text]),
                each[attempts],
                each["reason"],
                local_time(each["until"]),
            )
            for each in found
        ],
        f"There is no {status} response{' like this' if given else ''}.",
    )
    again = f"To retry one: {api.command_line('responses retry RESPONSE')} (to retry all: --all)"
    ways = [again] if found and status == "dead" else []
    if len(found) == limit:
        ways.append(f"Older ones: --before {found[-1]['id']}")
    return result(found, table, *ways)


@command(app, "show")
def show_response(api: RestClient, response: Id) -> CommandResult:
    """Show one dead response with its whole text."""
    found = _dead(api, response)
    facts = {
        "response": found["id"],
        "agent": found["agent"],
        "to": f"{found['channel']} {found['platformId'] or ''}",
        "chat": found["chatId"],
        "recipient": " ".join(filter(None, (found["sender"], found["senderId"]))),
        "answers": found["messageId"],
        "created": local_time(found["createdAt"]),
        "attempts": found["retryCount"],
        "why": found["reason"],
        "sent": "some of its parts, which are not sent again" if found["isPartlySent"] else None,
        "text": found["message"],
    }
    return result(found, FactList(facts))


@command(app, "retry")
def retry(
    api: RestClient,
    response: Annotated[
        int | None, typer.Argument(metavar="[RESPONSE]", min=1, help="Its number; or use --all.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All dead responses.")] = False,
) -> CommandResult:
    """Send a dead response again now, with a new set of attempts. Parts that arrived are not sent twice."""
    if (response is None) is not every:
        raise errors.UsageError("name a response, or use --all")
    if response is not None:
        return result(api.post("responses", response, "retry"), f"Response {response} is sent again.")
    sent = api.retry_all("responses")
    count = "1 response is" if len(sent) == 1 else f"{len(sent)} responses are"
    return result({"retried": sent}, f"{count} sent again.")


@command(app, "discard")
def discard(api: RestClient, response: Id) -> CommandResult:
    """Discard a dead response: its text is deleted, and it can no longer be sent."""
    return result(api.delete("responses", response), f"Response {response} is discarded.")


def _dead(api: RestClient, response: int) -> dict[str, Any]:
    for each in api.get("responses", "dead", before=response + 1, limit=1):
        if each["id"] == response:
            found: dict[str, Any] = each
            return found
    raise errors.DoesNotExist(
        f"there is no dead response {response}; `{api.command_line('responses list')}` lists them"
    )
