"""What the API says is not well."""

import asyncio

import pytest

from functions import api
from shared.core.time import clock
from shared.db.engine import meta
from shared.db.engine.connection import transaction
from shared.db.replica.last_comparison import LastComparison
from shared.rest.resources.health import _sweep_problems
from tests.api_client import get
from tests.shared.db.replica.test_sync import SYNCED, Stranger
from tests.shared.runtime.test_signs_of_life import LONG_MS, give, grow_silent
from tests.support import NOW, make_owner

MINUTE = 60_000
LATE = "no sweep for {} min: sweep or the ticker does not run. Nothing is rescued, and schedules wait"
BEHIND = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 16\r\n\r\nbucket not found"


@pytest.mark.parametrize(
    ("last_sweep", "since_ms", "problems"),
    [
        (NOW, 0, []),
        (NOW - 5 * MINUTE + 1, 0, []),
        (NOW - 5 * MINUTE, 0, [LATE.format(5)]),
        (NOW - 90 * MINUTE, 0, [LATE.format(90)]),
        (NOW - 90 * MINUTE, NOW - MINUTE, []),
        (None, NOW - MINUTE, []),
        (None, NOW - 6 * MINUTE, [LATE.format(6)]),
    ],
)
def test_sweeps_are_overdue_after_five_minutes_of_waiting(last_sweep, since_ms, problems):
    assert _sweep_problems(last_sweep, since_ms=since_ms, now_ms=NOW) == problems


def test_where_everything_runs_nothing_is_told(serving, conn, all_run):
    with transaction(conn):
        meta.put(conn, "heartbeat_at", str(NOW))
    found = get(serving, "/api/health").json()
    assert (found["ok"], found["problems"]) == (True, [])
    assert (found["lastSweep"], found["replica"], found["comparison"]) == (NOW, None, None)


def test_a_function_that_hangs_is_named_with_since_when_and_what_to_do(serving, environment, all_run):
    """Its process listens as before: once only its log told."""
    grow_silent(environment, "deliver", LONG_MS)
    found = get(serving, "/api/health").json()
    assert found["functions"] == {"dispatch": {"running": True}, "deliver": {"running": False}}
    assert found["notReady"] == [
        "deliver does not run: no response is sent. Its process hangs: it has given no sign of life for 2 d 3 h. "
        "Restart its service; in an emulator: emulator fault kill deliver"
    ]
    (item,) = get(serving, "/api/overview").json()["needsYou"]
    assert (item["mark"], item["title"]) == ("stop", "deliver does not run: no response is sent")
    assert 'postroom_function_up{function="deliver"} 0' in get(serving, "/metrics").text


@pytest.mark.parametrize(
    ("name", "lacks"),
    [
        ("ingest", "no message comes in"),
        ("sweep", "nothing is rescued"),
        ("recurrence", "schedules wait"),
        ("own", "its work waits"),
    ],
)
def test_a_function_that_takes_no_kicks_is_named_when_it_gives_no_more_signs(
    serving, environment, all_run, name, lacks
):
    """A hung sweep showed after five minutes, and a hung ingest or recurrence not at all."""
    grow_silent(environment, name, LONG_MS)
    assert get(serving, "/api/health").json()["notReady"] == [
        f"{name} does not run: {lacks}. Its process hangs or has ended: it has given no sign of life for 2 d 3 h. "
        f"Restart its service; in an emulator: emulator fault kill {name}. If it is not to run here any more, remove "
        f"{environment / name}.alive"
    ]


def test_a_function_that_gives_signs_or_never_gave_any_is_not_named(serving, environment, all_run):
    for name in ("ingest", "recurrence"):
        give(environment, name)
    assert get(serving, "/api/health").json()["notReady"] == []


def test_a_sweep_that_hangs_is_told_once(serving, environment, all_run):
    async def go():
        async with serving(api) as client:
            clock.move(lambda machine_ms: machine_ms + LONG_MS)  # no sweep since the start
            try:
                before = await client.get("/api/health")
                grow_silent(environment, "sweep", LONG_MS)
                after = await client.get("/api/health")
                return before.json()["notReady"], after.json()["notReady"]
            finally:
                clock.move(None)

    (overdue,), (hangs,) = asyncio.run(go())
    assert overdue.startswith("no sweep for ")
    assert hangs.startswith("sweep does not run: ")


def test_of_a_function_that_has_ended_nobody_says_that_it_hangs(serving, environment, conn):
    make_owner(conn)
    grow_silent(environment, "deliver", LONG_MS)
    assert "deliver does not run: no response is sent" in get(serving, "/api/health").json()["notReady"]


@pytest.mark.parametrize(("answer", "problem"), [(SYNCED, None), (BEHIND, "bucket not found")], ids=["there", "behind"])
def test_litestream_is_asked_whether_the_rows_are_in_the_replica(
    serving, environment, monkeypatch, all_run, answer, problem
):
    socket = environment / "litestream.sock"
    monkeypatch.setenv("POSTROOM_LITESTREAM_SOCKET", str(socket))

    async def go():
        async with Stranger(socket, answer), serving(api) as client:
            return (await client.get("/api/health")).json()

    found = asyncio.run(go())
    assert found["replica"] == {"problem": problem}
    follows = "(the rows are safe on this disk, and follow when the bucket answers)"
    assert found["needsYou"] == ([] if problem is None else [f"replication is behind: {problem} {follows}"])
    assert found["notReady"] == []


def test_a_replica_that_is_behind_is_not_ready_where_messages_wait_for_it(serving, environment, monkeypatch, all_run):
    socket = environment / "litestream.sock"
    monkeypatch.setenv("POSTROOM_LITESTREAM_SOCKET", str(socket))
    monkeypatch.setenv("POSTROOM_DURABILITY", "replicated")

    async def go():
        async with Stranger(socket, BEHIND), serving(api) as client:
            return (await client.get("/api/health")).json()

    found = asyncio.run(go())
    (sentence,) = found["notReady"]
    assert sentence.startswith("replication is behind: bucket not found. What waits for it by POSTROOM_DURABILITY=")
    assert found["needsYou"] == []


def test_a_comparison_that_found_a_difference_is_told(serving, db, all_run):
    LastComparison(NOW, "000000000000000a", 29, 1234, ["agents"], None).write(db)
    found = get(serving, "/api/health").json()
    assert found["comparison"]["differences"] == ["agents"]
    assert found["problems"] == [
        "the newest comparison found that the replica lacks something: `emulator verify` shows it"
    ]


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "[" * 50_000, '{"at": 1}'], ids=["empty", "a list", "cut", "nested", "a part"]
)
def test_a_damaged_file_of_the_comparison_is_none(serving, db, all_run, text):
    db.with_name(f"{db.name}-compared").write_text(text)
    assert get(serving, "/api/health").json()["comparison"] is None
