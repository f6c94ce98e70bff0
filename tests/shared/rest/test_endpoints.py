"""No reading endpoint costs more because of what is over: the same house with finished rows and with twice so many.

Counted in instructions of SQLite's virtual machine, over all connections of the process, so that an endpoint that is
added is measured as well. Some look among the newest 50,000 rows, so there are more than these.
"""

import asyncio
import collections
import re

import apsw
import pytest

from functions import api
from shared.db.engine.connection import rows, transaction
from shared.db.views import why
from shared.rest import endpoints
from tests.support import NOW, answer, make_agent, make_session, plan, put

FIRST = 55_000
assert why.SEARCHED < FIRST
BEFORE = NOW - 400 * 24 * 60 * 60 * 1000  # not of the day or month that some count
FILL = """
    WITH RECURSIVE numbers (n) AS (SELECT :first UNION ALL SELECT n + 1 FROM numbers WHERE n < :last)
    INSERT INTO {} SELECT {} FROM numbers
"""
FILLS = [
    FILL.format(table, columns)
    for table, columns in (
        (
            "messages (id, message_id, id_prefix, channel, chat_id, platform_id, event_key, sender, sender_id, message,"
            " agent, session_id, status, created_at, updated_at)",
            "n, 'telegram_' || n, 'telegram', 'telegram', 1, '100', n, 'Ana', '5', 'text', 'assistant', 1,"
            " 'completed', :at, :at",
        ),
        (
            "responses (message_id, in_reply_to, channel, chat_id, platform_id, session_id, sender, sender_id, message,"
            " agent, status, created_at, acked_at)",
            "'telegram_' || n, n, 'telegram', 1, '100', 1, 'Ana', '5', 'text', 'assistant', 'acked', :at, :at",
        ),
        (
            "events (type, message_id, agent, channel, session_id, created_at)",
            "'chain_step_done', 'telegram_' || n, 'assistant', 'telegram', 1, :at",
        ),
        (
            "agent_messages (agent_id, role, channel, sender, message_id, content, created_at)",
            "'assistant', 'user', 'telegram', 'Ana', 'telegram_' || n, 'text', :at",
        ),
        (
            "schedule_runs (series_id, message_id, due_at, started_at, recurrence, timezone)",
            "'series_1', 'task_' || n, :at, :at, '* * * * *', 'UTC'",
        ),
        ("dropped (channel, platform_id, reason, created_at)", "'telegram', '100', 'rate_limited', :at"),
    )
]
PARAMETER = re.compile(r":\w+|\?")
NAMES = {"id": "1", "name": "telegram", "channel": "telegram", "agent": "assistant", "state": "done"}
WITHOUT_END = {"/api/events/stream", "/api/events/changes"}
MORE = (
    "/api/messages/telegram_7",
    "/api/messages/telegram_7/why",
    "/api/why?ref=nothing",
    "/api/why?senderId=nobody",
    "/api/search?q=nothing",
    "/api/search?q=nothing&agent=assistant",
    "/api/lists/waiting?reason=planned",
    "/api/lists/waiting?agent=nobody",
    "/api/lists/dead?senderId=nobody",
    "/api/lists/done?agent=nobody",
    "/api/lists/done?reason=answered",
    "/api/lists/done?before=100",
    "/api/lists/sending?before=100",
    "/api/lists/unsent?before=100",
    "/api/find?q=nobody",
    "/api/lists/unanswered?what=ignored",
    "/api/lists/unanswered?code=not_wired",
    "/api/calendar?days=14",
    "/api/chats/1/log?q=nothing",
    "/api/chats/2/log",
    "/api/chats/1/log?before=1000",
    "/api/chats/1/log?limit=20",
    "/api/queue/pending?why=true",
    "/api/agents/assistant/history?channel=telegram",
)


def paths():
    for each in endpoints.ENDPOINTS:
        if each.method == "GET" and each.path not in WITHOUT_END:
            yield each.path.format_map({**dict.fromkeys(each.parameters, "1"), **{
                name: NAMES[name] for name in each.parameters if name in NAMES}})  # fmt: skip
    yield from MORE


def fill(conn, first, last):
    with transaction(conn):
        for sql in FILLS:
            conn.execute(sql, {"first": first, "last": last, "at": BEFORE})
        conn.execute("UPDATE meta SET value = :last WHERE key = 'announced'", {"last": str(last)})


@pytest.fixture
def counted():
    """The instructions by statement, of the connections that are opened from now on."""
    found = collections.Counter()

    def hook(conn):
        conn.trace_v2(
            apsw.SQLITE_TRACE_PROFILE,
            lambda told: found.update({told["sql"]: told["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]}),
        )

    apsw.connection_hooks.append(hook)
    yield found
    apsw.connection_hooks.remove(hook)


def costs(serving, counted):
    """The instructions of each path, by statement."""

    async def go():
        found = {}
        async with serving(api) as client:
            for path in paths():
                counted.clear()
                assert (await client.get(path)).status_code < 500, path
                found[path] = collections.Counter(counted)
        return found

    return asyncio.run(go())


def test_no_reading_endpoint_costs_more_in_a_full_house(serving, conn, counted):
    make_agent(conn, "coder")
    make_session(conn)
    make_session(conn, chat="200")
    rows(conn, "PRAGMA synchronous = OFF")
    fill(conn, 1, FIRST)
    for number in range(5):
        put(conn, agent="coder", chat="200")
        answer(conn, chat=str(300 + number))
    few = costs(serving, counted)
    fill(conn, 2 * FIRST, 3 * FIRST)
    many = costs(serving, counted)

    grown = {
        path: [
            (more - few[path][sql], " ".join(sql.split()), plan(conn, PARAMETER.sub("NULL", sql)))
            for sql, more in each.most_common(2)
        ]
        for path, each in many.items()
        if each.total() > few[path].total() * 1.2 + 500
    }
    assert grown == {}
    assert few["/api/search?q=nothing"].total() > 100_000  # the counter counts
