"""``emulator dropped``: events that were dropped, and why."""

from typing import Annotated

import typer

from emulator.cli.client import RestClient
from emulator.cli.commands.frame import Limit
from emulator.cli.output import CommandResult, TextTable, local_time, result


def list_dropped(
    api: RestClient,
    reason: Annotated[str | None, typer.Option(help="Only this reason, such as sender_unknown.")] = None,
    channel: Annotated[str | None, typer.Option(help="Only on this channel.")] = None,
    sender: Annotated[str | None, typer.Option(help="Only of the sender with this id on the platform.")] = None,
    chat: Annotated[int | None, typer.Option(min=1, help="Only in the chat with this number in `chats list`.")] = None,
    platform_id: Annotated[str | None, typer.Option(help="Only in the chat with this id on its platform.")] = None,
    since: Annotated[int | None, typer.Option(min=0, help="Only later rows than this one, oldest first.")] = None,
    limit: Limit = 50,
) -> CommandResult:
    """List dropped events and the reasons, newest first; texts are not kept. `why dropped_ROW` explains one."""
    chosen = {"reason": reason, "channel": channel, "senderId": sender, "chatId": chat, "platformId": platform_id}
    found = api.get("dropped", since_id=since, limit=limit, **chosen)
    table = TextTable(
        ("row", "when", "channel", "chat", "sender", "why", "code", "message"),
        [
            (
                each["id"],
                local_time(each["createdAt"]),
                each["channel"],
                named(each["platformId"], each["chatName"]),
                named(each["senderId"], each["sender"]),
                each["reason"],
                each["code"],
                each["messageId"],
            )
            for each in found
        ],
        "Nothing of that kind was dropped." if any((*chosen.values(), since)) else "Nothing was dropped.",
    )
    return result(found, table)


def named(id_: str | None, name: str | None) -> str:
    """An id of the platform, and the name that people read, where there is one."""
    return " ".join(part for part in (id_, f"({name})" if name else "") if part)
