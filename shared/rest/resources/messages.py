"""Messages: send one, read its story, wait for its answer, cancel it."""

import asyncio
import contextlib
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import apsw
from pydantic import BeforeValidator, Field
from typing_extensions import TypedDict

from shared.conversation.routing import addressing
from shared.core.accounts import FURTHER
from shared.core.row_settings import camel
from shared.core.time import clock
from shared.db.queue import messages, sessions
from shared.db.queue.schedules.settings import OF_RESPONSES, ScheduleSettings
from shared.db.roster import agents, chats, wirings
from shared.db.views import messages as message_views
from shared.db.views.messages import MessageStory
from shared.queue import cancellations, schedules, series, session_reset
from shared.queue.schedules import LATEST_MS
from shared.rest.http.common import OK, Ok
from shared.rest.http.endpoint import Body, Query, RequestRefused, endpoint
from shared.rest.http.service import Service
from shared.rest.resources import teams
from shared.roster.changes import takes_settings_of

_LONGEST_WAIT_S = 60.0


def _lenient(value: object) -> object:
    """Empty text counts as absent, and a number as its text: programs send both for ids."""
    if value == "":
        return None
    return str(value) if type(value) is int else value


Lenient = BeforeValidator(_lenient)
Name = Annotated[Annotated[str, Field(max_length=200)] | None, Lenient]
CHANNEL_NAME = r"^[a-z0-9][a-z0-9_-]{0,31}$"
ChannelName = Annotated[str, Field(pattern=CHANNEL_NAME)]
ChannelOrAccount = Annotated[str, Field(pattern=rf"{CHANNEL_NAME}|^{FURTHER}$")]


@takes_settings_of(ScheduleSettings, camel, OF_RESPONSES, is_new=True)
class NewMessageBody(Body):
    """TinyAGI's body, and beyond it a time and a recurrence."""

    sentences: ClassVar = {"message": "message is required"}

    message: str = Field(min_length=1)
    agent: Name = None
    sender: Name = None
    senderId: Name = None
    channel: Annotated[ChannelName | None, Lenient] = None
    messageId: Name = None
    processAfter: int | None = Field(default=None, ge=0, le=LATEST_MS)
    recurrence: str | None = Field(default=None, max_length=200)
    timezone: str | None = Field(default=None, max_length=100)


class Stored(TypedDict):
    """The message is stored under this id."""

    ok: Literal[True]
    messageId: str


class WaitQuery(Query):
    """*wait*: how long to wait for the end of the message."""

    wait: float = Field(default=0, ge=0, le=_LONGEST_WAIT_S, allow_inf_nan=False, description="seconds")


@endpoint("POST", "/api/message", {404: "there is no such agent", 409: "the messageId was used before"})
async def post_message(service: Service, *, body: NewMessageBody) -> Stored:
    """Send a message to an agent: the named one, the one that its text begins with (``@agent …``), or the default one.

    The answer comes when the message is stored.
    """
    zone = body.timezone or service.settings.timezone
    try:
        message_id, flag = await service.change(
            lambda conn: _enqueue(conn, body, zone, service.settings.agents_dir, now_ms=clock.now_ms()), "dispatch"
        )
    except apsw.ConstraintError:
        await service.confirm()  # this answer too says that the message is stored
        raise RequestRefused(409, "duplicate messageId", messageId=body.messageId) from None
    if flag is not None:  # only after the commit: a refused message resets no session
        with contextlib.suppress(OSError):
            flag.unlink()
    return {"ok": True, "messageId": message_id}


def _enqueue(
    conn: apsw.Connection, body: NewMessageBody, zone: str, agents_dir: Path, *, now_ms: int
) -> tuple[str, Path | None]:
    """The id of the stored message, and the reset file that it obeyed, if there is one."""
    new = address(
        conn,
        messages.NewMessage(
            given_id=body.messageId,
            id_prefix="task" if body.recurrence else "api",
            kind="task" if body.recurrence else "chat",
            message=body.message,
            process_after=body.processAfter,
        ),
        agent_id=body.agent,
        channel=body.channel or "api",
        sender=body.sender or "API",
        sender_id=body.senderId,
        now_ms=now_ms,
    )
    flag = agents_dir / new.agent / "reset_flag"
    requested_ms = _reset_requested_at(flag)
    obeyed = None if requested_ms is None else flag
    if requested_ms is not None and new.session_id and sessions.known(conn, new.session_id).created_at <= requested_ms:
        new = new._replace(session_id=session_reset.reset(conn, new.session_id, now_ms=now_ms))
    if body.recurrence is not None:
        when = series.When(
            body.processAfter, body.recurrence, zone, settings=ScheduleSettings(**schedules.chosen(body))
        )
        return series.plan_message(conn, new, when, now_ms=now_ms).message_id, obeyed
    row = messages.enqueue(conn, new, now_ms=now_ms)
    assert row is not None  # noqa: S101 - only an event from a platform can be stored already
    return messages.id_of(conn, row), obeyed


def _reset_requested_at(flag: Path) -> int | None:
    """When TinyAGI's ``/reset @agent`` or ``reset`` left the reset file, in ms UTC; None if it did not."""
    try:
        return clock.of_machine(flag.stat().st_mtime_ns // 1_000_000)
    except OSError:
        return None


def address(
    conn: apsw.Connection,
    new: messages.NewMessage,
    *,
    agent_id: str | None,
    channel: str,
    sender: str,
    sender_id: str | None,
    now_ms: int,
) -> messages.NewMessage:
    """The message with its agent, session and chat.

    Each sender over the API has a session of its own with the agent. An answer stays until a client fetches it. In a
    chat that webhooks made known, the channel's adapter delivers it.

    Raises:
        RequestRefused: there is no such agent (404).
    """
    agent = _recipient(conn, agent_id, new.message)
    chat = chats.ensure(conn, channel, sender_id or sender, is_group=False, name=sender, now_ms=now_ms)
    return new._replace(
        id_prefix=channel,
        channel=channel,
        chat_id=chat.id if wirings.of_chat(conn, chat.id) else None,
        platform_id=chat.platform_id,
        sender=sender,
        sender_id=sender_id,
        agent=agent,
        session_id=sessions.ensure(conn, agent, chat.id, None, now_ms=now_ms),
    )


def _recipient(conn: apsw.Connection, agent_id: str | None, text: str) -> str:
    """The id of the agent that the message is for.

    Raises:
        RequestRefused: there is no such agent (404).
    """
    if agent_id is not None:
        found = agents.get(conn, agent_id)
    else:
        known = {agent.id: agent.name for agent in agents.every(conn)} if text.startswith("@") else {}
        named = addressing.find_id(text, known, teams.team_names(conn)) if known else None
        found = agents.get(conn, named) if named else agents.default(conn)
    if found is None:
        names = ", ".join(each.id for each in agents.every(conn))
        raise RequestRefused(404, f"no agent {agent_id!r}; known: {names}" if agent_id else "there is no default agent")
    return found.id


@endpoint("GET", "/api/messages/{id}", {404: "there is no such message"})
async def get_message(service: Service, *, id: str, query: WaitQuery) -> MessageStory:
    """Read a message with its answers and events. With ``wait``, first wait so many seconds at most for it to end."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + query.wait
    row = messages.find(service.reader, id)
    while row is not None and message_views.is_open(service.reader, row):
        left = deadline - loop.time()
        if left <= 0:
            break
        await service.news(left)
    story = None if row is None else message_views.story(service.reader, row)
    if story is None:
        raise messages.unknown(id)
    return story


@endpoint("POST", "/api/messages/{id}/cancel", {404: "there is no such message", 409: "the message has ended already"})
async def cancel_message(service: Service, *, id: str) -> Ok:
    """Cancel a message. If a turn is processing it, the turn is stopped and what it says is discarded.

    Of a schedule, only this run is cancelled.
    """

    def work(conn: apsw.Connection) -> None:
        row = messages.known(conn, id)
        now_ms = clock.now_ms()
        cancellations.cancel(conn, row, reason="cancelled over the API", now_ms=now_ms)

    await service.change(work, "dispatch", "deliver")
    return OK


ENDPOINTS = (post_message, get_message, cancel_message)
