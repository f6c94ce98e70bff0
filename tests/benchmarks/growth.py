"""Section 3: the operations of 1 and 2 with ten million finished messages, answers and events, against none."""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.resources import files
from pathlib import Path

import apsw
import uvloop

from shared.db.engine.connection import open_connection, rows, scalar
from shared.roster.new_database import prepare_database
from tests.benchmarks.harness import client
from tests.benchmarks.harness.client import Connection, connections, load
from tests.benchmarks.harness.measure import (
    Line,
    Scale,
    Spread,
    at_least,
    at_most,
    interleave,
    percentile,
    rate,
    ratios,
)
from tests.benchmarks.harness.store import NOW, Store, echo_agent, wire
from tests.benchmarks.harness.system import System
from tests.benchmarks.turns import AGENTS, Answers, at_once, one_after_the_other
from tests.benchmarks.webhook import webhooks

_CHATS = 1000
_TEXT = "Could you look at the report that came in this morning and tell me what changed since last week?"
_HOURS_MS = 60 * 60 * 1000
_BUILD = ("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE", "cache_size = -1000000")


def grown(scale: Scale) -> Path:
    """A database with ``scale.rows`` finished rows of each kind; made once and kept for the next run."""
    schema = "".join(item.read_text("utf-8") for item in sorted((files("shared.db") / "migrations").iterdir(), key=str))
    mark = hashlib.sha256((schema + Path(__file__).read_text()).encode()).hexdigest()[:8]
    path = scale.cache / f"grown-{scale.rows}-{mark}.db"
    if not path.exists():
        for old in scale.cache.glob("grown-*"):
            old.unlink()
        fresh = scale.folder / "fresh.db"
        build(fresh, scale.rows, created_at=NOW - _HOURS_MS)
        fresh.rename(path)
    _finish(path)
    return path


def build(path: Path, count: int, *, created_at: int) -> None:
    """*count* each of completed messages, acked answers, events and lines of history, over a thousand chats."""
    prepare_database(path)
    wired = wire(path, [(echo_agent(f"agent-{number % AGENTS}"), 10_000 + number) for number in range(_CHATS)])
    conn = apsw.Connection(str(path))
    try:
        for pragma in _BUILD:
            rows(conn, f"PRAGMA {pragma}")
        conn.execute("CREATE TEMP TABLE places (number INTEGER PRIMARY KEY, agent TEXT, chat INTEGER, session INTEGER)")
        places = [(number, place.agent, place.chat, place.session) for number, place in enumerate(wired)]
        conn.executemany("INSERT INTO places VALUES (?, ?, ?, ?)", places)
        for statement in _FILL:
            conn.execute(statement, {"count": count, "chats": _CHATS, "text": _TEXT, "then": created_at})
        conn.execute(
            "UPDATE meta SET value = :newest WHERE key IN ('announced', 'events_counted')", {"newest": str(count)}
        )
        rows(conn, "PRAGMA locking_mode = NORMAL")
        rows(conn, "PRAGMA journal_mode = WAL")
    finally:
        conn.close()
    with path.open("rb") as file:
        os.fsync(file.fileno())  # else the kernel writes it to disk during the measurement


_NUMBERS = """
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count)
"""
_FILL = (
    """
    INSERT INTO messages (id, message_id, id_prefix, channel, chat_id, platform_id, platform_message_id, event_key,
                          sender, sender_id, message, agent, session_id, status, created_at, updated_at)
    """
    + _NUMBERS
    + """
    SELECT n, 'telegram_' || lower(hex(randomblob(8))), 'telegram', 'telegram', chat, 10000 + n % :chats, n,
           printf('7100200300:%012d', n), 'Ana',
           10000 + n % :chats, :text, agent, session, 'completed', :then, :then
      FROM numbers
      JOIN places ON number = n % :chats
    """,
    """
    INSERT INTO responses (message_id, in_reply_to, channel, chat_id, platform_id, session_id, sender, sender_id,
                           message, original_message, agent, status, parts, platform_message_id, created_at, acked_at)
    """
    + _NUMBERS
    + """
    SELECT 'telegram_' || n, n, 'telegram', chat, 10000 + n % :chats, session, 'Ana', 10000 + n % :chats,
           :text, :text, agent, 'acked', '["1"]', '1', :then, :then
      FROM numbers
      JOIN places ON number = n % :chats
    """,
    """
    INSERT INTO events (type, message_id, response_id, agent, channel, session_id, created_at)
    """
    + _NUMBERS
    + """
    SELECT 'response_acked', 'telegram_' || n, n, agent, 'telegram', session, :then
      FROM numbers
      JOIN places ON number = n % :chats
    """,
    """
    INSERT INTO agent_messages (agent_id, role, channel, sender, message_id, content, created_at)
    """
    + _NUMBERS
    + """
    SELECT agent, 'assistant', 'telegram', agent, 'telegram_' || n, :text, :then
      FROM numbers
      JOIN places ON number = n % :chats
    """,
)


def _finish(path: Path) -> None:
    """Finish the open rows that an earlier run left; the indexes of open rows find them."""
    conn = open_connection(path)
    for status in ("pending", "processing"):
        rows(
            conn,
            "UPDATE messages SET status = 'completed', claimed_by = NULL, lease = NULL"
            f" WHERE trigger = 1 AND status = '{status}'",
        )
    rows(conn, "UPDATE responses SET status = 'acked', acked_at = created_at WHERE status = 'pending'")
    conn.close()


def operations(scale: Scale) -> Iterator[Line]:
    """Section 1's operations, on the grown database and on an empty one."""
    path = grown(scale)
    prefix = f"72{int(time.time()) % 10**8:08d}"  # a bot of no earlier run
    both = {"grown": Store(path, "NORMAL", prefix=prefix), "empty": Store(scale.place("empty") / "empty.db", "NORMAL")}
    steps: dict[str, Callable[[Store], Callable[[], int]]] = {
        "enqueue, one per transaction": lambda store: store.insert_one,
        "enqueue with a deduplication key": lambda store: partial(store.insert_one, key=True),
        "enqueue, 100 per transaction": lambda store: partial(store.insert_many, 100),
        "claim + settle, one message": lambda store: partial(store.turn, 1),
        "claim + settle, a batch of 20": lambda store: partial(store.turn, 20),
    }
    for what, step in steps.items():
        if what.startswith("claim"):
            for store in both.values():
                store.fill(100)
        slices = {
            name: rate(
                step(store),
                scale.slice_s,
                prepare=partial(store.insert_many, 20 if "20" in what else 1) if "claim" in what else None,
            )
            for name, store in both.items()
        }
        yield _compared(f"{what}, NORMAL", interleave(slices, scale.rounds), scale)
    for store in both.values():
        store.conn.close()
    _finish(path)


def _compared(what: str, seen: dict[str, list[float]], scale: Scale) -> Line:
    return at_least(
        f"{what}: with {scale.rows:,} finished rows of each kind / empty",
        ratios(seen["grown"], seen["empty"]),
        0.90,
        beside=", ".join(f"{name} {Spread.of(values).median:,.0f}/s" for name, values in seen.items()),
        reason="the pages of an insert are further apart in a large file, and each checkpoint writes them back",
    )


def processes(scale: Scale) -> Iterator[Line]:
    """Section 2's, with functions on each of the two databases."""
    path = grown(scale)

    async def measure() -> dict[str, dict[str, list[float]]]:
        with System(scale.place("grown"), db=path) as grown_, System(scale.place("fresh")) as fresh:
            both = {"grown": grown_, "empty": fresh}
            answers = {}
            for name, system in both.items():
                wire(system.db, [(echo_agent(f"agent-{number}"), 3000 + number) for number in range(AGENTS)])
                system.start("ingest", "dispatch")
                answers[name] = Answers(system)
                await one_after_the_other(system, answers[name], 20)
            found: dict[str, dict[str, list[float]]] = {
                each: {"grown": [], "empty": []} for each in ("ingest", "echo", "p50")
            }
            for number in range(scale.rounds):
                for name in ("grown", "empty") if number % 2 else ("empty", "grown"):
                    system, heard = both[name], answers[name]
                    times = await one_after_the_other(system, heard, scale.few(60, 10))
                    found["p50"][name].append(1000 / percentile(times, 0.5))
                    found["echo"][name].append(await at_once(system, heard, scale.few(600, 50)))
            for system in both.values():
                system.stop("dispatch")
            request = webhooks(3000, AGENTS)
            for number in range(scale.rounds):
                for name in ("grown", "empty") if number % 2 else ("empty", "grown"):
                    system = both[name]
                    found["ingest"][name].append((await load(system.port("ingest"), 32, scale.load_s, request)).rate)
            for each in answers.values():
                each.close()
            return found

    found = uvloop.run(measure())
    yield _compared("ingest, 32 at a time", found["ingest"], scale)
    yield _compared("echo agent, messages/s to the response row", found["echo"], scale)
    yield _compared("echo agent, one after the other (1 / p50)", found["p50"], scale)
    _finish(path)


def views(scale: Scale) -> Iterator[Line]:
    """The views that people open, over HTTP."""
    path = grown(scale)
    asked = ("/api/queue/status", "/api/responses", f"/api/messages/{_a_message(path)}", "/metrics")

    async def measure(port: int) -> dict[str, list[list[float]]]:
        async with connections(port, 1) as (connection,):
            found: dict[str, list[list[float]]] = {each: [] for each in asked}
            for _ in range(scale.rounds):
                for each in asked:
                    found[each].append([await _timed(connection, each) for _ in range(scale.few(100, 20))])
            return found

    with System(scale.place("views"), db=path) as system:
        system.start("api")
        found = uvloop.run(measure(system.port("api")))
    tinyagi = {"/api/queue/status": "; TinyAGI 66 ms at 1 M", "/api/responses": "; TinyAGI 564 ms at 1 M"}
    for each, rounds in found.items():
        name = "/api/messages/{id}" if each.startswith("/api/messages/") else each
        yield at_most(
            f"{name} with {scale.rows:,} rows, p99",
            Spread.of(percentile(times, 0.99) for times in rounds),
            100 if each == "/metrics" else 0.7,
            "ms",
            beside=f"p50 {Spread.of(percentile(times, 0.5) for times in rounds).median:.2f} ms{tinyagi.get(each, '')}",
            reason="of a hundred calls the p99 is the longest but one, and this client shares the cores",
        )


async def _timed(connection: Connection, path: str) -> float:
    start = time.perf_counter()
    status = await connection.send(client.get(path))
    took = (time.perf_counter() - start) * 1000
    if status != 200:
        raise RuntimeError(f"{path} answered {status}: {connection.body[:200]!r}")
    if path.startswith("/api/"):
        json.loads(connection.body)
    return took


def _a_message(path: Path) -> str:
    """The id of a message in the middle."""
    store = Store(path, "NORMAL")
    found = scalar(store.conn, "SELECT message_id FROM messages WHERE id = (SELECT max(id) / 2 FROM messages)")
    store.conn.close()
    return str(found)


LINES = (operations, processes, views)
