"""``emulator sessions``: what each agent goes on from, and the ways to begin afresh."""

from typing import Annotated, Any, Literal

import typer

from emulator.cli.client import Rest
from emulator.cli.commands.frame import Limit, command, group
from emulator.cli.output import Answer, Pairs, Table, answer, cut, span, when
from shared.core import clock

app = group("Sessions: what each agent goes on from, and the ways to begin afresh.")

Id = Annotated[str, typer.Argument(metavar="SESSION", help="Its id: session_...")]


@command(app, "list")
def list_sessions(
    api: Rest,
    agent: Annotated[str | None, typer.Option(help="Only this agent's.")] = None,
    chat: Annotated[int | None, typer.Option(help="Only in this chat (its number in `chats list`).")] = None,
    status: Annotated[Literal["active", "closed"] | None, typer.Option(help="Only these.")] = None,
    limit: Limit = 50,
) -> Answer:
    """The sessions, newest first: who, where, what waits there."""
    found = api.get("sessions", agent=agent, chatId=chat, status=status, limit=limit)
    now_ms = clock.now_ms()
    table = Table(
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
                f"{span(now_ms - each['lastActive'])} ago",
            )
            for each in found
        ],
        "There is no such session.",
    )
    return answer(found, table)


@command(app, "show")
def show_session(
    api: Rest, session: Id, limit: Annotated[int, typer.Option(min=1, max=1000, help="Messages, the newest.")] = 20
) -> Answer:
    """One session, and what was said in it with the answers, oldest first."""
    found = api.get("sessions", session)
    said = api.get("sessions", session, "messages", limit=limit)
    table = Table(
        ("when", "message", "status", "who", "what", "answer"),
        [(when(each["createdAt"]), each["messageId"], *_said(each)) for each in said],
        "Nothing of what was said in it is kept.",
    )
    return answer({**found, "messages": said}, Pairs(_facts(found)), table)


@command(app, "reset")
def reset_session(api: Rest, session: Id) -> Answer:
    """Close it: a fresh one, which knows nothing of what was said, goes on in its place. As /clear in the chat."""
    done = api.post("sessions", session, "reset")
    return answer(done, f"Session {done['closed']} is closed; {done['sessionId']} goes on in its place.")


@command(app, "replay")
def replay_session(
    api: Rest,
    session: Id,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many messages, the newest.")] = None,
) -> Answer:
    """Ask a fresh session the same once more; its answers go to where the first ones went, to people."""
    done = api.post("sessions", session, "replay", limit=limit)
    old, new, count = done["replays"], done["sessionId"], done["messages"]
    return answer(
        done,
        f"Session {new} was given {count} message{'' if count == 1 else 's'} of {old} once more.",
        f"Compare {api.typed(f'sessions show {old}')}",
        f"   with {api.typed(f'sessions show {new}')}",
    )


def _facts(of: dict[str, Any]) -> dict[str, Any]:
    closed = f", {when(of['closedAt'])}" if of["closedAt"] else ""
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
        "made": when(of["createdAt"]),
        "last active": when(of["lastActive"]),
    }


def _said(each: dict[str, Any]) -> tuple[Any, ...]:
    status = each["status"] if each["trigger"] else f"{each['status']}, context"
    answers = cut(" / ".join(each["answers"])) or cut(each["lastError"] or "")
    return status, each["sender"], cut(each["message"]), answers
