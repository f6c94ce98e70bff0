"""``emulator sessions``: what each agent goes on from, and the ways to begin afresh."""

from typing import Annotated, Any, Literal

import typer

from emulator.cli.client import RestClient
from emulator.cli.commands.frame import Limit, command, group
from emulator.cli.output import CommandResult, FactList, TextTable, local_time, result, shorten, time_span
from shared.core import clock

app = group("Sessions: what each agent goes on from, and the ways to begin afresh.")

Id = Annotated[str, typer.Argument(metavar="SESSION", help="Its id: session_...")]


@command(app, "list")
def list_sessions(
    api: RestClient,
    agent: Annotated[str | None, typer.Option(help="Only this agent's.")] = None,
    chat: Annotated[int | None, typer.Option(help="Only in this chat (its number in `chats list`).")] = None,
    status: Annotated[Literal["active", "closed"] | None, typer.Option(help="Only these.")] = None,
    limit: Limit = 50,
) -> CommandResult:
    """The sessions, newest first: who, where, what waits there."""
    found = api.get("sessions", agent=agent, chatId=chat, status=status, limit=limit)
    now_ms = clock.now_ms()
    table = TextTable(
        ("session", "agent", "chat", "thread", "status", "waiting", "running", "last active"),
        [
            (
                each["sessionId"],
                each["agent"],
                each["chatId"],
                each["threadId"],
                each["status"],
                each["pending"],
                each["processing"],
                f"{time_span(now_ms - each['lastActive'])} ago",
            )
            for each in found
        ],
        "There is no such session.",
    )
    return result(found, table)


@command(app, "show")
def show_session(
    api: RestClient,
    session: Id,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Messages, the newest.")] = 20,
) -> CommandResult:
    """One session, and what was said in it with the answers, oldest first."""
    found = api.get("sessions", session)
    said = api.get("sessions", session, "messages", limit=limit)
    table = TextTable(
        ("when", "message", "status", "who", "what", "answer"),
        [(local_time(each["createdAt"]), each["messageId"], *_said(each)) for each in said],
        "Nothing of what was said in it is kept.",
    )
    return result({**found, "messages": said}, FactList(_facts(found)), table)


@command(app, "reset")
def reset_session(api: RestClient, session: Id) -> CommandResult:
    """Close it: a fresh one, which knows nothing of what was said, goes on in its place. As /clear in the chat."""
    done = api.post("sessions", session, "reset")
    return result(done, f"Session {done['closed']} is closed; {done['sessionId']} goes on in its place.")


@command(app, "replay")
def replay_session(
    api: RestClient,
    session: Id,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many messages, the newest.")] = None,
) -> CommandResult:
    """Ask a fresh session the same once more; its answers go to where the first ones went, to people."""
    done = api.post("sessions", session, "replay", limit=limit)
    old, new, count = done["replays"], done["sessionId"], done["messages"]
    return result(
        done,
        f"Session {new} was given {count} message{'' if count == 1 else 's'} of {old} once more.",
        f"Compare {api.command_line(f'sessions show {old}')}",
        f"   with {api.command_line(f'sessions show {new}')}",
    )


def _facts(of: dict[str, Any]) -> dict[str, Any]:
    closed = f", {local_time(of['closedAt'])}" if of["closedAt"] else ""
    return {
        "session": of["sessionId"],
        "agent": of["agent"],
        "chat": of["chatId"] if of["chatId"] is not None else "(none: the agent's own)",
        "thread": of["threadId"],
        "status": f"{of['status']}{closed}",
        "replays": of["replays"],
        "waiting": of["pending"],
        "running": of["processing"],
        "context": of["context"],
        "made": local_time(of["createdAt"]),
        "last active": local_time(of["lastActive"]),
    }


def _said(each: dict[str, Any]) -> tuple[Any, ...]:
    status = each["status"] if each["trigger"] else f"{each['status']}, context"
    answers = shorten(" / ".join(each["answers"])) or shorten(each["lastError"] or "")
    return status, each["sender"], shorten(each["message"]), answers
