"""Search: where in the agents' histories something was said, by people or by agents."""

import re
from typing import Literal

import apsw
from pydantic import Field
from starlette.requests import Request
from typing_extensions import TypedDict

from shared.db.engine import named_rows
from shared.db.views import history
from shared.db.views.history import HistoryLine
from shared.rest.http.background_reads import IsAbandoned
from shared.rest.http.endpoint import Query, endpoint
from shared.rest.http.service import Service

_BATCH = 25  # lines that are read at once
_MOST = 50_000  # lines that one call looks at
_MOST_CHARACTERS = 20_000_000  # that one call looks at
_AROUND = 120  # characters of an excerpt, before and behind what was looked for


class SearchQuery(Query):
    """What to look for, in whatever case; of which agent, on which channel; before which line."""

    q: str = Field(min_length=2, max_length=200)
    agent: str | None = Field(default=None, max_length=64)
    channel: str | None = Field(default=None, max_length=32)
    before: int = Field(default=named_rows.NEWEST, ge=1, le=named_rows.NEWEST)
    limit: int = Field(default=20, ge=1, le=100)


class SearchHit(TypedDict):
    """A line of an agent's history in which it stands; *user*: it was asked, *assistant*: it said."""

    id: int
    agent: str
    role: Literal["user", "assistant"]
    channel: str
    sender: str
    messageId: str
    excerpt: str
    createdAt: int


class SearchPage(TypedDict):
    """The hits, newest first; *next*: there may be more before this line, to be asked for with ``before``."""

    found: list[SearchHit]
    next: int | None


@endpoint("GET", "/api/search", {503: "as many run as may at once, and none came to an end: try again"})
async def get_search(service: Service, *, query: SearchQuery, request: Request) -> SearchPage:
    """Where something was said, newest first. One call looks at so many lines or characters; then: where to go on."""

    def look(conn: apsw.Connection, is_abandoned: IsAbandoned) -> SearchPage:
        return _look(conn, query, is_abandoned)

    return await service.background_reads.read(look, request.receive)


def _look(conn: apsw.Connection, query: SearchQuery, is_abandoned: IsAbandoned) -> SearchPage:
    pattern = re.compile(re.escape(query.q), re.IGNORECASE)
    found: list[SearchHit] = []
    before, seen = query.before, 0
    for _ in range(_MOST // _BATCH):
        lines = history.history_before(conn, agent=query.agent, before=before, limit=_BATCH)
        for line in lines:
            before, seen = line["id"], seen + len(line["content"])
            hit = pattern.search(line["content"]) if query.channel in (None, line["channel"]) else None
            if hit is not None:
                found.append(_hit(line, hit))
            if len(found) == query.limit or seen > _MOST_CHARACTERS or is_abandoned():
                return {"found": found, "next": before}
        if len(lines) < _BATCH:
            return {"found": found, "next": None}
    return {"found": found, "next": before}


def _hit(line: HistoryLine, hit: re.Match[str]) -> SearchHit:
    text, start, end = line["content"], max(0, hit.start() - _AROUND), hit.end() + _AROUND
    return {
        "id": line["id"],
        "agent": line["agent_id"],
        "role": line["role"],
        "channel": line["channel"],
        "sender": line["sender"],
        "messageId": line["message_id"],
        "excerpt": f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}",
        "createdAt": line["created_at"],
    }


ENDPOINTS = (get_search,)
