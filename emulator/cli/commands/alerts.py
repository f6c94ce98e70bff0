"""``emulator alerts``: what is not well, and the chats and the webhook that are told of it."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from emulator.base import errors
from emulator.cli.client import RestClient
from emulator.cli.commands import setting_options
from emulator.cli.commands.frame import Limit, command, group
from emulator.cli.output import CommandResult, TextTable, local_time, result
from shared.core.row_settings import camel
from shared.db.alerts.alert_routes import SETTINGS

app = group("Alerts: problems, each reported once to a chat or a webhook, and once more when it is over.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the route: a-z, 0-9 and -, such as ops.")]


@command(app, "list")
def list_alerts(api: RestClient, limit: Limit = 20) -> CommandResult:
    """List the routes of alerts, and the problems of now and before, newest first."""
    routes, found = api.get("alerts", "routes"), api.get("alerts", limit=limit)
    empty = f"No chat gets alerts, so nothing is checked. To add one: {api.command_line('alerts add NAME --chat N')}"
    to = TextTable(
        ("route", "chat", "channel", "tells", "quiet hours", "a digest every"),
        [
            (
                each["name"],
                each["chatId"],
                each["channel"],
                ", ".join(each["kinds"]) or "everything",
                each["quietHours"],
                "" if each["digestMs"] is None else f"{each['digestMs'] / 60_000:g} min",
            )
            for each in routes
        ],
        empty,
    )
    told = TextTable(
        ("kind", "what", "since", "over", "told"),
        [
            (
                each["kind"],
                f"{each['what']}. {each['why']}",
                local_time(each["since"]),
                local_time(each["overAt"]),
                "; ".join(map(_told, each["told"])),
            )
            for each in found
        ],
        "No problem was found.",
    )
    return result({"routes": routes, "alerts": found}, to, *([told] if routes or found else []))


def _told(of: Mapping[str, Any]) -> str:
    said = f"{of['route']}, {local_time(of['overToldAt'] or of['toldAt'])}"
    return said if of["state"] in ("answered", "gone") else f"{said}: {of['reason']}"


@command(app, "add", settings=SETTINGS)
def add_route(
    api: RestClient,
    name: Name,
    chat: Annotated[int | None, typer.Option(min=1, help="The chat, by its number in `chats list`.")] = None,
    webhook: Annotated[
        bool, typer.Option("--webhook", help="In place of a chat: the address of POSTROOM_ALERT_URL.")
    ] = False,
    **settings: Any,
) -> CommandResult:
    """Let alerts go to a chat or a webhook, or change how they do."""
    if webhook and chat is not None:
        raise errors.UsageError("a route leads to one place: use either --chat or --webhook")
    body = {camel(each): value for each, value in setting_options.read(SETTINGS, settings).items()}
    to: dict[str, Any] = {"webhook": True} if webhook else {} if chat is None else {"chatId": chat}
    saved = api.put("alerts", "routes", name, body=body | to)
    now = saved["route"]
    tells = ", ".join(now["kinds"]) or "everything"
    quiet = f", quiet {now['quietHours']}" if now["quietHours"] else ""
    return result(saved, f"Route {name} notifies chat {now['chatId']} ({now['channel']}) of {tells}{quiet}.")


@command(app, "remove")
def remove_route(api: RestClient, name: Name) -> CommandResult:
    """Send no more alerts by a route."""
    return result(api.delete("alerts", "routes", name), f"Route {name} sends no more alerts.")
