"""``emulator why``: why a message was not answered."""

from typing import Annotated, Any

import typer

from emulator.base import errors
from emulator.cli.client import RestClient
from emulator.cli.commands.people.dropped import named
from emulator.cli.output import CommandResult, FactList, TextTable, local_time, result


def explain(
    api: RestClient,
    message: Annotated[
        str | None,
        typer.Argument(
            metavar="[MESSAGE]",
            help="Its id (telegram_1a2b3c4d), the platform's id of it, dropped_ROW, or an approval that it waits for.",
        ),
    ] = None,
    sender: Annotated[str | None, typer.Option(help="The newest of the sender with this id on the platform.")] = None,
    chat: Annotated[int | None, typer.Option(min=1, help="The newest in the chat with this number.")] = None,
    platform_id: Annotated[
        str | None, typer.Option(help="The newest in the chat with this id on its platform.")
    ] = None,
    channel: Annotated[str | None, typer.Option(help="Only on this channel.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="The maximum number of messages.")] = 10,
) -> CommandResult:
    """Tell why a message was not answered: it waits, it is held for an approval, it failed, or it was dropped."""
    chosen = {"ref": message, "senderId": sender, "chatId": chat, "platformId": platform_id, "channel": channel}
    if not any(each is not None for name, each in chosen.items() if name != "channel"):
        raise errors.UsageError("name a message, or the place where it was written: --sender, --chat or --platform-id")
    found: list[dict[str, Any]] = api.get("why", limit=limit, **chosen)
    if not found:
        raise errors.DoesNotExist(
            "nothing is known of it: it never arrived, or its record is older than POSTROOM_RETENTION_MS. Whether the "
            f"platform reaches this Postroom: `{api.command_line('status')}`"
        )
    if len(found) == 1:
        return result(found, FactList(_facts(found[0])), *_ways(api, found[0]))
    return result(found, _table(found), f"One of them: {api.command_line('why MESSAGE')}")


def _facts(of: dict[str, Any]) -> dict[str, Any]:
    return {
        "message": of["id"],
        "why": of["reason"],
        "until": local_time(of["until"]),
        "agent": of["agent"],
        "chat": f"{of['channel']} {named(of['platformId'], of['chatName'])}",
        "sender": named(of["senderId"], of["sender"]),
        "received": local_time(of["createdAt"]),
        "page": of["page"],
    }


def _table(found: list[dict[str, Any]]) -> TextTable:
    return TextTable(
        ("message", "received", "chat", "sender", "why", "until"),
        [
            (
                each["id"],
                local_time(each["createdAt"]),
                f"{each['channel']} {named(each['platformId'], each['chatName'])}",
                named(each["senderId"], each["sender"]),
                each["reason"],
                local_time(each["until"]),
            )
            for each in found
        ],
        "",
    )


def _ways(api: RestClient, of: dict[str, Any]) -> list[str]:
    """The commands that help, for a reason that a command ends."""
    commands = {
        "agent_paused": f"agents resume {of.get('agent')}",
        "dead": f"messages retry {of['id']}",
        "asks": f"approvals approve {of['approval']}",
        "held": f"approvals approve {of['approval']}",
        "answer_dead": f"responses retry {of['response']}",
        "paused": f"schedules resume {of['series']}",
    }
    if of["state"] not in commands or api.past:  # the past changes no row
        return []
    return [f"To go on: {api.command_line(commands[of['state']])}"]
