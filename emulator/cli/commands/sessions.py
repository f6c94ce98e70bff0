"""``emulator sessions``: the context of each agent in each chat, and how to start over."""

from typing import Annotated, Any, Literal

import typer

from emulator.cli.client import RestClient
from emulator.cli.commands.frame import Limit, command, group
from emulator.cli.output import CommandResult, FactList, TextTable, local_time, result, shorten
from shared.core.time import clock
from shared.core.time.durations import time_span

app = group("Sessions: the context of each agent in each chat, and how to start over.")

Id = Annotated[str, typer.Argument(metavar="SESSION", help="Its id: session_...")]


@command(app, "list")
def list_sessions(
    api: RestClient,
    agent: Annotated[str | None, typer.Option(help="Only of this agent.")] = None,
    chat: Annotated[int | None, typer.Option(help="Only in this chat (its number in `chats list`).")] = None,
    status: Annotated[Literal["active", "closed"] | None, typer.Option(help="Only sessions with this status.")] = None,
    limit: Limit = 50,
) -> CommandResult:
    """List the sessions, newest first, with the messages that wait in each."""
    found = api.get("sessions", agent=agent, chatId=chat, status=status, limit=limit)
    now_ms = clock.now_ms()
    table = TextTable(
        ("session", "agent", "chat", "thread", "private to", "status", "pending", "running", "last active"),
        [
            (
                each["sessionId"],
                each["agent"],
                each["chatId"],
                each["threadId"],
                each["privateTo"],
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
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The number of newest messages.")] = 20,
) -> CommandResult:
    """Show one session with its messages and responses, oldest first."""
    found = api.get("sessions", session)
    messages = api.get("sessions", session, "messages", limit=limit)
    table = TextTable(
        ("when", "message", "status", "sender", "text", "response"),
        [(local_time(each["createdAt"]), each["messageId"], *_columns(each)) for each in messages],
        "No message of it is kept.",
    )
    return result({**found, "messages": messages}, FactList(_facts(found)), table)


@command(app, "reset")
def reset_session(api: RestClient, session: Id) -> CommandResult:
    """Close the session and start an empty one in its place, like /clear in the chat."""
    done = api.post("sessions", session, "reset")
    return result(done, f"Session {done['closed']} is closed; {done['sessionId']} takes its place.")


@command(app, "replay")
def replay_session(
    api: RestClient,
    session: Id,
    limit: Annotated[int | None, typer.Option(min=1, help="Replay only the newest N messages.")] = None,
) -> CommandResult:
    """Send the same messages to a new session. Its responses go to the people who got the first ones."""
    done = api.post("sessions", session, "replay", limit=limit)
    old, new, count = done["replays"], done["sessionId"], done["messages"]
    return result(
        done,
        f"Session {new} replays {count} message{'' if count == 1 else 's'} of {old}.",
        f"Compare {api.command_line(f'sessions show {old}')}",
        f"   with {api.command_line(f'sessions show {new}')}",
    )


def _facts(of: dict[str, Any]) -> dict[str, Any]:
    closed = f", {local_time(of['closedAt'])}" if of["closedAt"] else ""
    return {
        "session": of["sessionId"],
        "agent": of["agent"],
        "chat": of["chatId"] if of["chatId"] is not None else "(none: shared by all chats of the agent)",
        "thread": of["threadId"],
        "private to": of["privateTo"],
        "status": f"{of['status']}{closed}",
        "replays": of["replays"],
        "pending": of["pending"],
        "running": of["processing"],
        "context": of["context"],
        "created": local_time(of["createdAt"]),
        "last active": local_time(of["lastActive"]),
    }


def _columns(each: dict[str, Any]) -> tuple[Any, ...]:
    status = each["status"] if each["trigger"] else f"{each['status']}, context"
    answers = shorten(" / ".join(each["answers"])) or shorten(each["lastError"] or "")
    return status, each["sender"], shorten(each["message"]), answers
