"""Search: where in the agents' histories something was said, by people or by agents."""

import asyncio
import re
from typing import Literal

from pydantic import Field
from typing_extensions import TypedDict

from shared.db import views
from shared.rest.endpoint import Query, endpoint
from shared.rest.service import Service

_BATCH = 25  # lines that are read at once
_AT_ONCE = 200_000  # characters, some 3 ms: so long nobody else is answered
_MOST = 50_000  # lines that one call looks at
_MOST_CHARACTERS = 20_000_000  # that one call looks at
_AROUND = 120  # characters of an excerpt, before and behind what was looked for


class Wanted(Query):
    """What to look for, in whatever case; of which agent, on which channel; before which line."""

    q: str = Field(min_length=2, max_length=200)
    agent: str | None = Field(default=None, max_length=64)
    channel: str | None = Field(default=None, max_length=32)
    before: int = Field(default=views.NEWEST, ge=1, le=views.NEWEST)
    limit: int = Field(default=20, ge=1, le=100)


class Hit(TypedDict):
    """A line of an agent's history in which it stands; *user*: it was asked, *assistant*: it said."""

    id: int
    agent: str
    role: Literal["user", "assistant"]
    channel: str
    sender: str
    messageId: str
    excerpt: str
    createdAt: int


class Found(TypedDict):
    """The hits, newest first; *next*: there may be more before this line, to be asked for with ``before``."""

    found: list[Hit]
    next: int | None


@endpoint("GET", "/api/search")
async def get_search(service: Service, *, query: Wanted) -> Found:
    """Where something was said, newest first. One call looks at so many lines or characters; then: where to go on."""
    pattern = re.compile(re.escape(query.q), re.IGNORECASE)
    found: list[Hit] = []
    before, seen, rested = query.before, 0, 0
    for _ in range(_MOST // _BATCH):
        lines = views.history_before(service.reader, agent=query.agent, before=before, limit=_BATCH)
        for line in lines:
            before, seen = line["id"], seen + len(line["content"])
            hit = pattern.search(line["content"]) if query.channel in (None, line["channel"]) else None
            if hit is not None:
                found.append(_hit(line, hit))
            if len(found) == query.limit or seen > _MOST_CHARACTERS:
                return {"found": found, "next": before}
            if seen > rested + _AT_ONCE:
                await asyncio.sleep(0)
                rested = seen
        if len(lines) < _BATCH:
            return {"found": found, "next": None}
        await asyncio.sleep(0)
    return {"found": found, "next": before}


def _hit(line: views.Shown, hit: re.Match[str]) -> Hit:
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
