"""Why a message was not answered, also one that is held for an approval or was dropped."""

from collections.abc import Mapping
from typing import Literal

import apsw
from pydantic import Field
from starlette.requests import Request

from shared.core import page_links
from shared.core.page_links import Page
from shared.core.settings import Settings
from shared.db.engine import past
from shared.db.queue import messages
from shared.db.views import spending, why, why_sentences
from shared.db.views.spending import ChainUsage, MessageUsage
from shared.db.views.why import DroppedFacts, GatheringFacts, HeldFacts, MessageFacts, Of, Place
from shared.db.views.why_sentences import Reason, Why
from shared.rest.http.endpoint import Query, RequestRefused, endpoint
from shared.rest.http.service import Service
from shared.rest.resources.dropped_and_events import place_of

_OPEN = ("pending", "processing", "paused")

WhatItIs = Literal["message", "held", "dropped", "gathering"]


class WhyView(Reason):
    """What became of a message.

    *id*: of the message; ``held_``, ``dropped_`` or ``gathering_`` and the row, if it never became one, or not
    yet. *state* is a word for programs, *reason* a sentence for people; *until*: the instant
    at which the reason ends, in ms UTC, where that is known.
    *code*: of a dropped one, its word. *page*: the address where the operator's page shows it, where that is set.
    *approval*: that has to be decided. *response*: the answer that is not sent. *usage*: what its turns took of models.
    *chain*: what agents did for each other because of it.
    """

    what: WhatItIs
    id: str
    code: str | None
    page: str | None
    createdAt: int
    channel: str
    platformId: str | None
    chatName: str | None
    senderId: str | None
    sender: str
    agent: str | None
    approval: str | None
    response: int | None
    series: str | None
    usage: list[MessageUsage]
    chain: ChainUsage | None


class WhyQuery(Query):
    """*ref*: a message's id, the platform's id of it or of its event, ``dropped_`` or ``held_`` and a row, an approval.

    *senderId*, *chatId*, *platformId*, *channel*: the newest of this sender, in this chat, on this channel.
    """

    ref: str | None = Field(default=None, min_length=1, max_length=200)
    senderId: str | None = Field(default=None, min_length=1, max_length=200)
    chatId: int | None = Field(default=None, ge=1)
    platformId: str | None = Field(default=None, min_length=1, max_length=200)
    channel: str | None = Field(default=None, min_length=1, max_length=32)
    limit: int = Field(default=10, ge=1, le=100)


@endpoint("GET", "/api/messages/{id}/why", {404: "there is no such message"})
async def get_why_of_message(service: Service, *, id: str) -> WhyView:
    """Read why a message has no answer yet, or that it has one."""
    row = messages.find(service.reader, id)
    found = _of_message(service.reader, row, now_ms=service.now_ms()) if row is not None else None
    if found is None:
        raise messages.unknown(id)
    return _with_page(found, service.settings)


@endpoint(
    "GET",
    "/api/why",
    {
        400: "neither a message, a sender nor a chat is named",
        404: "there is no such chat",
        503: "too many searches run at once: try again later",
    },
)
async def get_why(service: Service, *, query: WhyQuery, request: Request) -> list[WhyView]:
    """Find messages, held and dropped ones too, and why each has no answer, newest first.

    A message's own id is read at once; a search runs beside the other requests.
    """
    channel, platform_id = query.channel, query.platformId
    if query.chatId is not None:
        channel, platform_id = place_of(service.reader, query.chatId)
    of = Of(query.ref, query.senderId, channel, platform_id)
    if (of.ref, of.sender_id, of.platform_id) == (None, None, None):
        raise RequestRefused(400, "name a message (ref), a sender (senderId) or a chat (chatId or platformId)")
    now_ms = service.now_ms()
    row = messages.find(service.reader, of.ref) if of.ref is not None else None
    named = _of_message(service.reader, row, now_ms=now_ms) if row is not None else None
    if named is not None:
        return [_with_page(named, service.settings)]
    found = await service.background_reads.read(
        lambda conn: _search(conn, of, limit=query.limit, now_ms=now_ms), request.receive
    )
    return [_with_page(each, service.settings) for each in found]


_PAGES: Mapping[WhatItIs, Page] = {"held": "approvals", "dropped": "dropped", "gathering": "overview"}


def _with_page(found: WhyView, settings: Settings) -> WhyView:
    what = found["what"]
    page = ("message", found["id"]) if what == "message" else (_PAGES[what],)
    return {**found, "page": page_links.link(settings.public_url, *page) or None}


def _search(conn: apsw.Connection, of: Of, *, limit: int, now_ms: int) -> list[WhyView]:
    """The newest messages, held events and dropped events like this, newest first."""
    found = [_of_gathering(each) for each in why.gathering(conn, of, limit=limit)]
    for each in (of, *why.albums(conn, of, limit=limit)):
        found += _search_whole(conn, each, limit=limit, now_ms=now_ms)
    found = list({view["id"]: view for view in found}.values())
    return sorted(found, key=lambda each: -each["createdAt"])[:limit]


def _search_whole(conn: apsw.Connection, of: Of, *, limit: int, now_ms: int) -> list[WhyView]:
    rows = why.messages(conn, of, limit=limit)
    found = [view for row in rows if (view := _of_message(conn, row, now_ms=now_ms)) is not None]
    found += [_of_held(each) for each in why.held(conn, of, limit=limit)]
    found += [_of_dropped(each) for each in why.dropped(conn, of, limit=limit)]
    return found


def _of_message(conn: apsw.Connection, row: int, *, now_ms: int) -> WhyView | None:
    facts = why.message(conn, row, now_ms=now_ms)
    if facts is None:
        return None
    found = _view("message", facts.message_id, why_sentences.of_message(facts, now_ms=now_ms), facts)
    unsent = next((each.id for each in facts.responses if each.status != "acked"), None)
    found.update({"agent": facts.agent, "response": unsent, "series": facts.series_id, "approval": facts.asks})
    found["usage"] = spending.of_message(conn, row)
    found["chain"] = spending.of_chain(conn, row)
    if facts.status in _OPEN and (copied := past.read(conn)) is not None:
        found["reason"] += f" But {copied.sentence}: here it stays so."
    if cost := why_sentences.of_usage(found["usage"]):
        found["reason"] += f" {cost}"
    if found["chain"] is not None:
        found["reason"] += f" {why_sentences.of_chain(found['chain'])}"
    return found


def _of_held(facts: HeldFacts) -> WhyView:
    found = _view("held", f"held_{facts.id}", why_sentences.of_held(facts), facts)
    found.update({"agent": facts.agent, "approval": facts.approval_id})
    return found


def _of_gathering(facts: GatheringFacts) -> WhyView:
    return _view("gathering", f"gathering_{facts.id}", why_sentences.of_gathering(facts), facts)


def _of_dropped(facts: DroppedFacts) -> WhyView:
    found = _view("dropped", f"dropped_{facts.id}", why_sentences.of_dropped(facts), facts)
    found["code"] = facts.reason
    return found


def _view(
    what: WhatItIs, id_: str, reason: Why, facts: MessageFacts | HeldFacts | DroppedFacts | GatheringFacts
) -> WhyView:
    place: Place = facts.place
    return {
        "what": what,
        "id": id_,
        **reason.as_fields(),
        "code": None,
        "page": None,
        "createdAt": facts.created_at,
        "channel": place.channel,
        "platformId": place.platform_id,
        "chatName": place.chat_name,
        "senderId": place.sender_id,
        "sender": place.sender,
        "agent": None,
        "approval": None,
        "response": None,
        "series": None,
        "usage": [],
        "chain": None,
    }


ENDPOINTS = (get_why_of_message, get_why)
