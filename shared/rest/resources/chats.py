"""Chats, and which agents answer in them, when, and to whom."""

from typing import Literal

import apsw
from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from shared.admin import retire
from shared.core import clock
from shared.core.errors import NotFound, WrongState
from shared.core.policy import SenderPolicy
from shared.db.roster import chats, destinations
from shared.db.roster.wirings import EngageMode, IgnoredMessagePolicy, SenderScope, SessionMode
from shared.db.views import access
from shared.db.views.access import ChatView, WiringView
from shared.rest.http.common import OK, Ok, PageQuery, Removed
from shared.rest.http.endpoint import Body, RequestRefused, endpoint
from shared.rest.http.service import Service
from shared.rest.resources.messages import ChannelName
from shared.roster import agents_and_teams
from shared.roster import wirings as wiring

_UNKNOWN = {404: "there is no such chat"}
_NOT_WIRED = {404: "there is no such chat, or the agent does not answer there"}
_FIELDS = {
    "engageMode": "engage_mode",
    "engagePattern": "engage_pattern",
    "senderScope": "sender_scope",
    "ignoredMessagePolicy": "ignored_message_policy",
    "sessionMode": "session_mode",
    "priority": "priority",
}


class SavedChat(TypedDict):
    """The chat as it is now."""

    ok: Literal[True]
    chat: ChatView


class SavedWiring(TypedDict):
    """The wiring as it is now."""

    ok: Literal[True]
    wiring: WiringView


class ChatsQuery(PageQuery):
    """Of which channel, and what the platform calls it; of those before a row, the newest."""

    channel: str | None = Field(default=None, max_length=32)
    platformId: str | None = Field(default=None, max_length=200)


class WiringsQuery(PageQuery):
    """Of which agent; of those before a row, the newest."""

    agent: str | None = Field(default=None, max_length=64)


class NewChatBody(Body):
    """A chat that is known before anybody wrote in it; *platformId* is what its platform calls it."""

    model_config = ConfigDict(extra="forbid")

    channel: ChannelName
    platformId: str = Field(min_length=1, max_length=200)
    isGroup: bool = False
    name: str | None = Field(default=None, min_length=1, max_length=200)
    senderPolicy: SenderPolicy = "strict"


class ChatChangeBody(Body):
    """What is not named stays. *refused*: whether no agent is wanted there, and nobody is asked about it."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=agents_and_teams.without_defaults)

    name: str | None = Field(default=None, min_length=1, max_length=200)
    senderPolicy: SenderPolicy = "strict"
    status: Literal["active", "inactive"] = "active"
    refused: bool = False


class WiringChangeBody(Body):
    """What is not named stays, or is what suits the chat if the wiring is new: when it is mentioned, and never more."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=agents_and_teams.without_defaults)

    engageMode: EngageMode = "mention"
    engagePattern: str | None = Field(default=None, max_length=500, description="RE2; needed if engageMode is pattern")
    senderScope: SenderScope = "all"
    ignoredMessagePolicy: IgnoredMessagePolicy = "drop"
    sessionMode: SessionMode = "shared"
    priority: int = Field(default=0, ge=-1_000_000, le=1_000_000)


def _chat(conn: apsw.Connection, chat_id: int) -> ChatView:
    found = access.chat(conn, chat_id)
    if found is None:
        raise NotFound(f"there is no chat {chat_id}; GET /api/chats lists them")
    return found


def _wiring(conn: apsw.Connection, chat_id: int, agent: str) -> WiringView:
    found = access.wirings_of_chat(conn, chat_id, agent=agent)
    if not found:
        chat = _chat(conn, chat_id)
        answering = ", ".join(chat["agents"]) or "nobody"
        raise NotFound(f"agent {agent!r} does not answer in chat {chat_id}: {answering} does")
    return found[0]


@endpoint("GET", "/api/chats")
async def get_chats(service: Service, *, query: ChatsQuery) -> list[ChatView]:
    """The conversation places, newest first."""
    return access.chats(
        service.reader, channel=query.channel, platform_id=query.platformId, before=query.before, limit=query.limit
    )


@endpoint("POST", "/api/chats", {409: "it is there already"})
async def post_chat(service: Service, *, body: NewChatBody) -> SavedChat:
    """Make a chat that nobody has written in yet, so that an agent can be wired to it."""

    def work(conn: apsw.Connection) -> ChatView:
        known = chats.find(conn, body.channel, body.platformId)
        if known is not None:
            raise WrongState(f"{body.channel} chat {body.platformId!r} is there already: it is chat {known.id}")
        made = chats.ensure(
            conn,
            body.channel,
            body.platformId,
            is_group=body.isGroup,
            name=body.name,
            sender_policy=body.senderPolicy,
            now_ms=clock.now_ms(),
        )
        return _chat(conn, made.id)

    return {"ok": True, "chat": await service.change(work)}


@endpoint("GET", "/api/chats/{id}", _UNKNOWN)
async def get_chat(service: Service, *, id: int) -> ChatView:
    """One conversation place."""
    return _chat(service.reader, id)


@endpoint("PATCH", "/api/chats/{id}", {**_UNKNOWN, 409: "agents answer there: it can't be refused"})
async def patch_chat(service: Service, *, id: int, body: ChatChangeBody) -> SavedChat:
    """Change what is named of it. Agents that knew the chat by its number alone call it by its new name."""
    sent = body.model_dump(exclude_unset=True)
    names = {"name": "name", "senderPolicy": "sender_policy", "status": "status"}

    def work(conn: apsw.Connection) -> ChatView:
        before, now_ms = _chat(conn, id), clock.now_ms()
        change: chats.ChatChange = {names[name]: value for name, value in sent.items() if name in names}  # type: ignore[assignment]
        if "refused" in sent:
            if sent["refused"] and before["agents"]:
                raise RequestRefused(409, f"{', '.join(before['agents'])} answers in chat {id}: unwire it there first")
            change["refused_at"] = (before["refusedAt"] or now_ms) if sent["refused"] else None
        chats.update(conn, id, now_ms=now_ms, **change)
        if sent.get("name"):
            for agent in before["agents"]:
                destinations.name_after_chat(conn, agent, id)
        return _chat(conn, id)

    return {"ok": True, "chat": await service.change(work, "deliver")}


@endpoint(
    "DELETE",
    "/api/chats/{id}",
    {**_UNKNOWN, 409: "something waits there, and the sentence says how much; or the last owner is asked there"},
)
async def delete_chat(service: Service, *, id: int) -> Removed:
    """Let the chat go: nobody answers or sends there, or is asked about it. One in which something was said is retired:
    inactive and refused; what was said stays.
    """
    done = await service.change(lambda conn: retire.delete_chat(conn, id, now_ms=clock.now_ms()), "deliver")
    return {"ok": True, "retired": done == "retired"}


@endpoint("GET", "/api/wirings")
async def get_wirings(service: Service, *, query: WiringsQuery) -> list[WiringView]:
    """Which agents answer where, newest first."""
    return access.wirings(service.reader, agent=query.agent, before=query.before, limit=query.limit)


@endpoint("GET", "/api/chats/{id}/wirings", _UNKNOWN)
async def get_wirings_of(service: Service, *, id: int) -> list[WiringView]:
    """Which agents answer in the chat, the most important first."""
    _chat(service.reader, id)
    return access.wirings_of_chat(service.reader, id)


@endpoint("GET", "/api/chats/{id}/wirings/{agent}", _NOT_WIRED)
async def get_wiring(service: Service, *, id: int, agent: str) -> WiringView:
    """How one agent answers in the chat."""
    return _wiring(service.reader, id, agent)


@endpoint("PUT", "/api/chats/{id}/wirings/{agent}", {404: "there is no such chat, or no such agent"})
async def put_wiring(service: Service, *, id: int, agent: str, body: WiringChangeBody) -> SavedWiring:
    """Let the agent answer in the chat and send there, or change how it does."""
    change = {_FIELDS[name]: value for name, value in body.model_dump(exclude_unset=True).items()}

    def work(conn: apsw.Connection) -> WiringView:
        wiring.connect(conn, id, agent, change, now_ms=clock.now_ms())
        return _wiring(conn, id, agent)

    return {"ok": True, "wiring": await service.change(work)}


@endpoint("DELETE", "/api/chats/{id}/wirings/{agent}", _NOT_WIRED)
async def delete_wiring(service: Service, *, id: int, agent: str) -> Ok:
    """The agent answers there no more, nor may it send there. Its sessions stay, and what waits in them is answered."""

    def work(conn: apsw.Connection) -> None:
        _wiring(conn, id, agent)
        wiring.disconnect(conn, id, agent)

    await service.change(work)
    return OK


ENDPOINTS = (
    *(get_chats, post_chat, get_chat, patch_chat, delete_chat),
    *(get_wirings, get_wirings_of, get_wiring, put_wiring, delete_wiring),
)
