"""``emulator chats`` and ``emulator wirings``: the chats, and which agents answer in them."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import typer

from emulator.base import errors
from emulator.cli.client import RestClient
from emulator.cli.commands import setting_options
from emulator.cli.commands.frame import Limit, command, group
from emulator.cli.output import CommandResult, FactList, TextTable, local_time, result
from shared.core.row_settings import camel
from shared.db.roster.wirings import SETTINGS

app = group("Chats, and how they treat strangers.")
wirings_app = group("Wirings: which agent answers in which chat, when, and to whom.")

Id = Annotated[int, typer.Argument(metavar="CHAT", min=1, help="Its number in `chats list`.")]
Agent = Annotated[str, typer.Argument(metavar="AGENT")]
Policy = Literal["strict", "request_approval", "public"]
_POLICY = "For strangers: refuse them (strict), ask an approver for each, or let everyone talk (public)."


@command(app, "list")
def list_chats(
    api: RestClient,
    channel: Annotated[str | None, typer.Option(help="Only chats on this channel.")] = None,
    platform_id: Annotated[str | None, typer.Option(help="Only the chat with this id on its platform.")] = None,
    limit: Limit = 100,
) -> CommandResult:
    """List the chats, newest first."""
    found = api.get("chats", channel=channel, platformId=platform_id, limit=limit)
    table = TextTable(
        ("chat", "channel", "platform's id", "name", "kind", "strangers", "agents", ""),
        [
            (
                each["id"],
                each["channel"],
                each["platformId"],
                each["name"],
                "group" if each["isGroup"] else "direct",
                each["senderPolicy"],
                each["agents"] or "(none)",
                _trouble(each),
            )
            for each in found
        ],
        "There is no such chat. A chat appears when a person writes in it.",
    )
    return result(found, table)


@command(app, "show")
def show_chat(api: RestClient, chat: Id) -> CommandResult:
    """Show one chat and the agents that answer in it."""
    found, wired = api.get("chats", chat), api.get("chats", chat, "wirings")
    facts = {
        "chat": found["id"],
        "channel": found["channel"],
        "platform's id": found["platformId"],
        "name": found["name"],
        "kind": "group" if found["isGroup"] else "direct",
        "strangers": found["senderPolicy"],
        "status": found["status"],
        "refused": local_time(found["refusedAt"]),
        "silent until": local_time(found["notBefore"]),
        "will open for": found["opensFor"],
        "known since": local_time(found["createdAt"]),
    }
    return result({**found, "wirings": wired}, FactList(facts), _wirings(api, wired))


@command(app, "add", takes_minus=True)
def add_chat(
    api: RestClient,
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="telegram, discord, …")],
    platform_id: Annotated[str, typer.Argument(metavar="ID", help="Its id on the platform.")],
    group: Annotated[bool, typer.Option("--group", help="It is a group, not a direct chat.")] = False,
    name: Annotated[str | None, typer.Option(help="The name that people read.")] = None,
    policy: Annotated[Policy, typer.Option(help=_POLICY)] = "strict",
) -> CommandResult:
    """Add a chat before anyone writes in it, so that an agent can be wired to it."""
    body: dict[str, Any] = {"channel": channel, "platformId": platform_id, "isGroup": group, "senderPolicy": policy}
    made = api.post("chats", body=body | ({"name": name} if name else {}))
    number = made["chat"]["id"]
    return result(
        made,
        f"Chat {number} is {channel} {platform_id}. "
        f"To let an agent answer there: {api.command_line(f'wirings set {number} AGENT')}",
    )


@command(app, "set")
def set_chat(
    api: RestClient,
    chat: Id,
    policy: Annotated[Policy | None, typer.Option(help=_POLICY)] = None,
    name: Annotated[str | None, typer.Option(help="The name that people read.")] = None,
    status: Annotated[
        Literal["active", "inactive"] | None, typer.Option(help="Nothing is sent to an inactive chat.")
    ] = None,
    refused: Annotated[
        bool | None,
        typer.Option("--refused/--not-refused", help="Let no agent answer there, and ask no approver about it."),
    ] = None,
) -> CommandResult:
    """Change the given settings of a chat; its other settings stay."""
    change = _named(senderPolicy=policy, name=name, status=status, refused=refused)
    if not change:
        raise errors.UsageError(f"name at least one setting to change in chat {chat}; --help lists them")
    saved = api.patch("chats", chat, body=change)
    now = saved["chat"]
    state = ", ".join(part for part in (f"strangers: {now['senderPolicy']}", now["status"], _refused(now)) if part)
    return result(saved, f"Chat {chat}{_called(now['name'])}: {state}.")


@command(app, "delete")
def delete_chat(api: RestClient, chat: Id) -> CommandResult:
    """Delete a chat: no agent answers or sends there, and no approver is asked about it. Its history stays."""
    gone = api.delete("chats", chat)
    if gone["retired"]:
        back = api.command_line(f"wirings set {chat} AGENT")
        return result(
            gone, f"Chat {chat} is retired: no agent answers there, and its history stays. To bring it back: {back}"
        )
    return result(gone, f"Chat {chat} is deleted. The next message there creates it again.")


@command(wirings_app, "list")
def list_wirings(
    api: RestClient,
    agent: Annotated[str | None, typer.Option(help="Only wirings of this agent.")] = None,
    chat: Annotated[int | None, typer.Option(min=1, help="Only wirings in this chat.")] = None,
    limit: Limit = 100,
) -> CommandResult:
    """List the wirings, newest first; in one chat, by priority."""
    if chat is None:
        found = api.get("wirings", agent=agent, limit=limit)
    else:
        found = [each for each in api.get("chats", chat, "wirings") if agent in (None, each["agent"])]
    return result(found, _wirings(api, found))


@command(wirings_app, "set", settings=SETTINGS)
def set_wiring(
    api: RestClient,
    chat: Id,
    agent: Agent,
    *,
    instead: Annotated[
        bool, typer.Option("--instead", help="In place of the agents that answer there now, with their settings.")
    ] = False,
    also: Annotated[bool, typer.Option("--also", help="Beside the agents that answer there now.")] = False,
    **settings: Any,
) -> CommandResult:
    """Let an agent answer in a chat, or change how. New wirings get defaults that suit the chat.

    Where another agent answers already, say what is to become of it: --instead moves the chat to this agent, with the
    settings of the other one; --also lets each of them answer.
    """
    if instead and also:
        raise errors.UsageError("another agent is either replaced or kept: use only one of --instead, --also")
    change = setting_options.read(SETTINGS, settings)
    if "engage_pattern" in change:
        change.setdefault("engage_mode", "pattern")
    others = "remove" if instead else "keep" if also else "refuse"
    saved = api.put(
        "chats", chat, "wirings", agent, body={camel(name): value for name, value in change.items()}, others=others
    )
    now = saved["wiring"]
    return result(
        saved, f"Agent {agent} answers in chat {chat}{_called(now['chatName'])}: {_how(now)}.", *_others(saved, agent)
    )


def _others(saved: dict[str, Any], agent: str) -> Iterator[str]:
    """What became of the other agents of the chat."""
    for each in saved["removed"]:
        yield (
            f"Agent {each} no longer answers there; messages that wait for it are still answered. People whom only "
            f"{each} knows are strangers to {agent}."
        )
    if saved["others"]:
        yield f"Answering there too, each for itself: {', '.join(saved['others'])}."


@command(wirings_app, "delete")
def delete_wiring(api: RestClient, chat: Id, agent: Agent) -> CommandResult:
    """Stop an agent from answering in a chat. Messages that wait already are still answered."""
    deleted = api.delete("chats", chat, "wirings", agent)
    said = [f"Agent {agent} no longer answers in chat {chat}."]
    if not api.get("chats", chat, "wirings"):
        said.append(
            "No agent does now, and the next message there counts as one of a new chat: POSTROOM_NEW_CHATS says "
            "whether an owner is asked, the default agent answers, or nobody."
        )
        said.append(f"To let nobody answer: {api.command_line(f'chats delete {chat}')}")
    return result(deleted, *said)


def _wirings(api: RestClient, found: list[dict[str, Any]]) -> TextTable:
    return TextTable(
        ("chat", "name", "agent", "when", "to whom", "the rest", "session", "while it works", "priority"),
        [
            (
                each["chatId"],
                each["chatName"] or f"{each['channel']} {each['platformId']}",
                each["agent"],
                _when(each),
                each["senderScope"],
                each["ignoredMessagePolicy"],
                each["sessionMode"],
                each["whileBusy"],
                each["priority"],
            )
            for each in found
        ],
        f"No agent answers there. To let one answer: {api.command_line('wirings set CHAT AGENT')}",
    )


def _when(wiring: dict[str, Any]) -> str:
    return f"pattern {wiring['engagePattern']}" if wiring["engageMode"] == "pattern" else str(wiring["engageMode"])


def _how(wiring: dict[str, Any]) -> str:
    words = (
        f"when {_when(wiring)}",
        f"to {wiring['senderScope']}",
        f"the rest {wiring['ignoredMessagePolicy']}",
        f"session {wiring['sessionMode']}",
        f"priority {wiring['priority']}",
        f"while it works {wiring['whileBusy']}",
        _debounce(wiring["debounceMs"]),
    )
    return "; ".join(words)


def _debounce(debounce_ms: int | None) -> str:
    return "debounce by its provider" if debounce_ms is None else f"debounce {debounce_ms / 1000:g} s"


def _trouble(chat: dict[str, Any]) -> str:
    if chat["status"] != "inactive":
        return _refused(chat)
    return "retired" if chat["refusedAt"] else "inactive: the bot was removed or blocked"


def _refused(chat: dict[str, Any]) -> str:
    return "refused: no agent may answer" if chat["refusedAt"] else ""


def _called(name: str | None) -> str:
    return f" ({name})" if name else ""


def _named(**values: Any) -> dict[str, Any]:
    """The values that are not None."""
    return {name: value for name, value in values.items() if value is not None}
