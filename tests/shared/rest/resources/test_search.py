"""The search over the API."""

import asyncio
from types import SimpleNamespace
from urllib.parse import quote

import pytest

from shared.db.engine.connection import transaction
from shared.db.queue import agent_messages
from shared.db.queue.agent_messages import AgentMessage
from shared.db.views import history
from shared.rest.resources import search
from tests.api_client import get
from tests.support import NOW, plan

LONG = "x" * 300


@pytest.fixture
def said(conn):
    """Store lines of a history, in order."""

    def say(*texts, agent="coder", role="user", channel="telegram"):
        lines = [AgentMessage(agent, role, channel, "Ana", "telegram_1", text, NOW) for text in texts]
        with transaction(conn):
            agent_messages.append(conn, lines)

    return say


def hits(serving, query):
    return [each["id"] for each in get(serving, f"/api/search?q={query}").json()["found"]]


def test_a_search_ignores_case_and_finds_the_newest_first(serving, said):
    said("Die Rechnung ist da", "nothing", "RECHNUNG?", "Ärger", "50% off_")
    assert get(serving, "/api/search?q=rechnung").json() == {
        "found": [
            {
                **{"id": id_, "agent": "coder", "role": "user", "channel": "telegram", "sender": "Ana"},
                **{"messageId": "telegram_1", "excerpt": text, "createdAt": NOW},
            }
            for id_, text in ((3, "RECHNUNG?"), (1, "Die Rechnung ist da"))
        ],
        "next": None,
    }
    assert hits(serving, "%C3%A4rger") == [4]
    assert (hits(serving, "0%25%20o"), hits(serving, ".."), hits(serving, "0_")) == ([5], [], [])


@pytest.mark.parametrize(
    ("words", "text"),
    [
        *(
            ("kelvin", "\u212aelvin"),
            ("\u212aelvin", "kelvin"),
            ("stra\u00dfe", "STRA\u1e9eE"),
            ("sigma", "\u017figma"),
        ),
        *(("\u03c3\u03c2", "\u03a3\u03a3"), ("\u00b5s", "\u03bcs"), ("ilik", "\u0130l\u0131k"), ("\u0131\u0130", "ii")),
    ],
)
def test_letters_that_are_equal_in_any_case_are_found(serving, said, words, text):
    """What a search leaves out early is what its pattern would not find either."""
    said("nothing", f"... {text}", "ss")
    assert hits(serving, quote(words)) == [2]


def test_a_hit_in_a_long_text_has_an_excerpt(serving, said):
    said(f"{LONG}needle{LONG}")
    (hit,) = get(serving, "/api/search?q=needle").json()["found"]
    assert hit["excerpt"] == f"…{LONG[:120]}needle{LONG[:120]}…"


def test_a_search_is_limited_to_an_agent_a_channel_and_earlier_lines(serving, said):
    said("word 1", "word 2")
    said("word 3", agent="other", role="assistant", channel="discord")
    found = {query: hits(serving, f"word{query}") for query in ("&agent=coder", "&channel=discord", "&before=2")}
    assert found == {"&agent=coder": [2, 1], "&channel=discord": [3], "&before=2": [1]}


def test_a_search_continues_where_the_last_call_ended(serving, said):
    said(*(f"word {number}" for number in range(5)))
    seen, more = [], ""
    while more is not None:
        page = get(serving, f"/api/search?q=word&limit=2{more}").json()
        seen.append([each["id"] for each in page["found"]])
        more = page["next"] and f"&before={page['next']}"
    assert seen == [[5, 4], [3, 2], [1]]


def test_one_call_searches_a_limited_number_of_lines_and_says_where_it_stopped(serving, said, monkeypatch):
    monkeypatch.setattr(search, "_BATCH", 2)
    monkeypatch.setattr(search, "_MOST", 4)
    said("word", *("nothing",) * 5)
    first = get(serving, "/api/search?q=word").json()
    assert first == {"found": [], "next": 3}
    assert hits(serving, "word&before=3") == [1]


def test_one_call_searches_a_limited_number_of_characters_and_says_where_it_stopped(serving, said, monkeypatch):
    """Lines may be long: the allowed number of them could be gigabytes."""
    monkeypatch.setattr(search, "_MOST_CHARACTERS", 2 * len(LONG))
    said("word", LONG, f"word{LONG}", "", LONG)
    first = get(serving, "/api/search?q=word").json()
    assert ([each["id"] for each in first["found"]], first["next"]) == ([3], 3)
    assert hits(serving, "word&before=3") == [1]


def test_a_search_ends_when_its_caller_disconnects(conn, said):
    said(*("nothing",) * 20)
    looked = []

    class BackgroundReads:
        """The caller disconnects after four lines."""

        async def read_long(self, work, receive):
            return work(conn, lambda: looked.append(1) or len(looked) == 4)

    asked = search.get_search.run(
        SimpleNamespace(background_reads=BackgroundReads()),
        query=search.SearchQuery(q="word"),
        request=SimpleNamespace(receive=None),
    )
    assert asyncio.run(asked) == {"found": [], "next": 17}


@pytest.mark.parametrize("agent", [None, "coder"])
def test_no_search_sorts_or_scans_a_history(conn, agent):
    sql = history.TEXTS if agent else history.TEXTS_OF_ALL
    given = {"channel": None, "before": 9, "limit": 1} | ({"agent": agent} if agent else {})
    (line,) = plan(conn, sql, **given)
    assert line.startswith("SEARCH agent_messages USING ")
