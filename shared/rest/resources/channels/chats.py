"""Chats and wirings: which agents answer in a chat, when, and to whom."""

from typing import Literal

import apsw
from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from shared.core.errors import NotFound, WrongState
from shared.core.policy import SenderPolicy
from shared.core.row_settings import camel
from shared.core.time import clock
from shared.db.roster import chats, destinations
from shared.db.roster.wirings import SETTINGS, Wiring
from shared.db.views import access
from shared.db.views.access import ChatView, WiringView
from shared.rest.admin import retire
from shared.rest.http.common import OK, Ok, PageQuery, Removed
from shared.rest.http.endpoint import Body, Query, RequestRefused, endpoint
from shared.rest.http.service import Service
from shared.rest.resources.messages import ChannelOrAccount
from shared.roster import wirings
from shared.roster.changes import takes_settings_of, without_defaults
from shared.roster.wirings import Others

_UNKNOWN = {404: "there is no such chat"}
_NOT_WIRED = {404: "there is no such chat, or the agent is not wired to it"}
_FIELDS = {camel(name): name for name in SETTINGS}


class SavedChat(TypedDict):
    """The chat after the change."""

    ok: Literal[True]
    chat: ChatView


class SavedWiring(TypedDict):
    """The wiring after the change; *others*: the agents that answer there too; *removed*: those that no longer do."""

    ok: Literal[True]
    wiring: WiringView
    others: list[str]
    removed: list[str]


class ChatsQuery(PageQuery):
    """*platformId*: the platform's id of the chat. *before*: only rows with a lower id."""

    channel: str | None = Field(default=None, max_length=32)
    platformId: str | None = Field(default=None, max_length=200)


class WiringsQuery(PageQuery):
    """*agent*: only its wirings. *before*: only rows with a lower id."""

    agent: str | None = Field(default=None, max_length=64)


class OthersQuery(Query):
    """*others*: the agents that answer there already. ``keep`` them, ``remove`` them, or ``refuse`` a new wiring."""

    others: Others = "keep"


class NewChatBody(Body):
    """A chat that Postroom has no message from yet; *platformId*: the platform's id of the chat."""

    channel: ChannelOrAccount
    platformId: str = Field(min_length=1, max_length=200)
    isGroup: bool = False
    name: str | None = Field(default=None, min_length=1, max_length=200)
    senderPolicy: SenderPolicy = "strict"


class ChatChangeBody(Body):
    """Fields that are left out stay as they are. *refused*: no agent is wanted there, and no approver is asked."""

    model_config = ConfigDict(json_schema_extra=without_defaults)

    name: str | None = Field(default=None, min_length=1, max_length=200)
    senderPolicy: SenderPolicy = "strict"
    status: Literal["active", "inactive"] = "active"
    refused: bool = False


@takes_settings_of(Wiring, camel)
class WiringChangeBody(Body):
    """Fields that are left out stay as they are. In a new wiring, the agent answers when mentioned."""

    model_config = ConfigDict(json_schema_extra=without_defaults)


def _chat(conn: apsw.Connection, chat_id: int) -> ChatView:
    found = access.chat(conn, chat_id)
    if found is None:
        raise NotFound(f"there is no chat {chat_id}; GET /api/chats lists them")
    return found


def _wiring(conn: apsw.Connection, chat_id: int, agent: str) -> WiringView:
    found = access.wirings_of_chat(conn, chat_id, agent=agent)
    if not found:
        chat = _chat(conn, chat_id)
        answering = ", ".join(chat["agents"]) or "none"
        raise NotFound(f"agent {agent!r} is not wired to chat {chat_id}; wired agents: {answering}")
    return found[0]


@endpoint("GET", "/api/chats")
async def get_chats(service: Service, *, query: ChatsQuery) -> list[ChatView]:
    """List the chats, newest first."""
    return access.chats(
        service.reader, channel=query.channel, platform_id=query.platformId, before=query.before, limit=query.limit
    )


@endpoint("POST", "/api/chats", {409: "this chat is known already"})
async def post_chat(service: Service, *, body: NewChatBody) -> SavedChat:
    """Add a chat before its first message, to wire an agent to it."""

    def work(conn: apsw.Connection) -> ChatView:
        known = chats.find(conn, body.channel, body.platformId)
        if known is not None:
            raise WrongState(f"{body.channel} chat {body.platformId!r} is known already: it is chat {known.id}")
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
    """Read one chat."""
    return _chat(service.reader, id)


@endpoint("PATCH", "/api/chats/{id}", {**_UNKNOWN, 409: "agents are wired to the chat: it can't be refused"})
async def patch_chat(service: Service, *, id: int, body: ChatChangeBody) -> SavedChat:
    """Change the given fields of a chat. Destinations that have the chat's number as their name get the new name."""
    sent = body.model_dump(exclude_unset=True)
    names = {"name": "name", "senderPolicy": "sender_policy", "status": "status"}

    def work(conn: apsw.Connection) -> ChatView:
        before, now_ms = _chat(conn, id), clock.now_ms()
        change: chats.ChatChange = {names[name]: value for name, value in sent.items() if name in names}  # type: ignore[assignment]
        if sent.get("refused") is False:
            change["refused_at"] = None
        elif sent.get("refused") and not chats.refuse(conn, id, now_ms=now_ms):
            wired = ", ".join(before["agents"])
            raise RequestRefused(409, f"chat {id} can't be refused: first delete the wirings of {wired}")
        chats.update(conn, id, now_ms=now_ms, **change)
        if sent.get("name"):
            for agent in before["agents"]:
                destinations.name_after_chat(conn, agent, id)
        return _chat(conn, id)

    return {"ok": True, "chat": await service.change(work, "deliver")}


@endpoint(
    "DELETE",
    "/api/chats/{id}",
    {
        **_UNKNOWN,
        409: "messages or responses wait there; or it is where the last owner gets approvals; the error says more",
    },
)
async def delete_chat(service: Service, *, id: int) -> Removed:
    """Delete a chat with its wirings, destinations and approvals.

    A chat that has had messages is retired: inactive and refused, and the messages stay.
    """
    done = await service.change(lambda conn: retire.delete_chat(conn, id, now_ms=clock.now_ms()), "deliver")
    return {"ok": True, "retired": done == "retired"}


@endpoint("GET", "/api/wirings")
async def get_wirings(service: Service, *, query: WiringsQuery) -> list[WiringView]:
    """List the wirings of all chats, newest first."""
    return access.wirings(service.reader, agent=query.agent, before=query.before, limit=query.limit)


@endpoint("GET", "/api/chats/{id}/wirings", _UNKNOWN)
async def get_wirings_of(service: Service, *, id: int) -> list[WiringView]:
    """List the wirings of one chat, the highest priority first."""
    _chat(service.reader, id)
    return access.wirings_of_chat(service.reader, id)


@endpoint("GET", "/api/chats/{id}/wirings/{agent}", _NOT_WIRED)
async def get_wiring(service: Service, *, id: int, agent: str) -> WiringView:
    """Read the wiring of one agent to the chat."""
    return _wiring(service.reader, id, agent)


@endpoint(
    "PUT",
    "/api/chats/{id}/wirings/{agent}",
    {404: "there is no such chat, or no such agent", 409: "another agent answers there, and ``others`` is ``refuse``"},
)
async def put_wiring(
    service: Service, *, id: int, agent: str, query: OthersQuery, body: WiringChangeBody
) -> SavedWiring:
    """Wire the agent to the chat, or change the given fields of the wiring. The agent may then send there too.

    With ``others=remove`` the chat moves to the agent, in one step: a new wiring takes over the fields of the only one.
    """
    change = {_FIELDS[name]: value for name, value in body.model_dump(exclude_unset=True).items()}

    def work(conn: apsw.Connection) -> SavedWiring:
        removed = wirings.connect_beside(conn, id, agent, change, others=query.others, now_ms=clock.now_ms())
        answering = [each["agent"] for each in access.wirings_of_chat(conn, id)]
        others = [each for each in answering if each != agent]
        return {"ok": True, "wiring": _wiring(conn, id, agent), "others": others, "removed": removed}

    return await service.change(work)


@endpoint("DELETE", "/api/chats/{id}/wirings/{agent}", _NOT_WIRED)
async def delete_wiring(service: Service, *, id: int, agent: str) -> Ok:
    """Delete a wiring: the agent may no longer answer or send there. Pending messages are still answered."""

    def work(conn: apsw.Connection) -> None:
        _wiring(conn, id, agent)
        wirings.disconnect(conn, id, agent)

    await service.change(work)
    return OK


ENDPOINTS = (
    *(get_chats, post_chat, get_chat, patch_chat, delete_chat),
    *(get_wirings, get_wirings_of, get_wiring, put_wiring, delete_wiring),
)
