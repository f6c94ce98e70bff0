"""Search the agents' histories for what people or agents said."""

import re
from collections.abc import Callable
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

_BATCH = 100  # lines that one query reads
_MOST = 20_000  # lines that one call searches: in less than 100 ms
_MOST_CHARACTERS = 4_000_000  # that one call searches
_AROUND = 120  # characters of an excerpt before the hit, and after it


class SearchQuery(Query):
    """*q*: the text to find; upper and lower case are equal. *before*: only lines with a lower id."""

    q: str = Field(min_length=2, max_length=200)
    agent: str | None = Field(default=None, max_length=64)
    channel: str | None = Field(default=None, max_length=32)
    before: int = Field(default=named_rows.NEWEST, ge=1, le=named_rows.NEWEST)
    limit: int = Field(default=20, ge=1, le=100)


class SearchHit(TypedDict):
    """A line of an agent's history that contains the text; *role*: ``user`` asked, ``assistant`` answered."""

    id: int
    agent: str
    role: Literal["user", "assistant"]
    channel: str
    sender: str
    messageId: str
    excerpt: str
    createdAt: int


class SearchPage(TypedDict):
    """The hits, newest first; *next*: the ``before`` of the next call, null if everything was searched."""

    found: list[SearchHit]
    next: int | None


@endpoint("GET", "/api/search", {503: "too many searches run at once: try again later"})
async def get_search(service: Service, *, query: SearchQuery, request: Request) -> SearchPage:
    """Search the histories, newest first. One call searches a limited number of lines, and ``next`` continues."""

    def work(conn: apsw.Connection, is_abandoned: IsAbandoned) -> SearchPage:
        return _search(conn, query, is_abandoned)

    return await service.background_reads.read_long(work, request.receive)


def _search(conn: apsw.Connection, query: SearchQuery, is_abandoned: IsAbandoned) -> SearchPage:
    search = _finder(query.q)
    found: list[SearchHit] = []
    before, seen = query.before, 0
    for _ in range(_MOST // _BATCH):
        texts = history.texts_before(conn, agent=query.agent, channel=query.channel, before=before, limit=_BATCH)
        for before, text in texts:
            seen += len(text or "")
            hit = search(text) if text is not None else None
            if hit is not None:
                found.append(_hit(history.line(conn, before), hit))
            if len(found) == query.limit or seen > _MOST_CHARACTERS or is_abandoned():
                return {"found": found, "next": before}
        if len(texts) < _BATCH:
            return {"found": found, "next": None}
    return {"found": found, "next": before}


def _finder(words: str) -> Callable[[str], re.Match[str] | None]:
    """Finds the first place of the words in a text, in any case. Pure.

    Most texts have none. Where all is ASCII, the letters in lower case tell that in a fraction of the pattern's time.
    """
    pattern, lower = re.compile(re.escape(words), re.IGNORECASE), words.lower()
    if not words.isascii():
        return pattern.search
    return lambda text: pattern.search(text) if not text.isascii() or lower in text.lower() else None


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
