"""What people do to messages while dispatch runs: cancel, pause, resume, retry, or interrupt by an urgent message."""

import asyncio
import json
import os
import sys
import threading

import pytest

from functions.dispatch import Dispatch
from shared.core.errors import WrongState
from shared.core.settings import Settings
from shared.core.time import clock
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.queue import messages
from shared.queue import series
from tests.functions.dispatch.working import SAID, STATUS, working
from tests.liveness import processes_naming
from tests.support import column, make_agent, put, row

# Records each run with the mark of a child. A message "stay" keeps it running, unless another says "go".
PROGRAM = """
import json, os, subprocess, sys, time
texts = [message["text"] for message in json.load(sys.stdin)["messages"]]
stays = "stay" in texts and "go" not in texts
mark = "child-" + os.urandom(6).hex()
if stays:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)", mark])
with open("shared/runs", "a") as runs:
    runs.write(json.dumps({"texts": texts, "mark": mark}) + "\\n")
if stays:
    time.sleep(300)
print(json.dumps({"type": "result", "text": " and ".join(texts)}))
"""


# Answers when somebody has opened the FIFO "gate" for writing and closed it.
WAITS = """
import json, sys
texts = [message["text"] for message in json.load(sys.stdin)["messages"]]
open("shared/gate").read()
print(json.dumps({"type": "result", "text": " and ".join(texts)}))
"""


@pytest.fixture
def coder(conn, tmp_path):
    """An agent whose program records its runs; the records."""
    make_agent(conn, "coder", provider="command", config={"command": [sys.executable, "-I", "-c", PROGRAM]})
    told = tmp_path / "agents" / "coder" / "shared" / "runs"

    def runs():
        lines = told.read_text().splitlines() if told.exists() else []
        return [json.loads(line) for line in lines]

    return runs


def by_hand(conn, verb, row_id, **more):
    with transaction(conn):
        return getattr(messages, verb)(conn, row_id, now_ms=clock.now_ms(), **more)


def cancel(conn, row_id):
    return by_hand(conn, "cancel", row_id, reason="unwanted")


def is_gone(run):
    """The child of the run has ended."""
    return processes_naming(run["mark"]) == []


# -- cancel


def test_a_cancelled_pending_message_never_runs(conn, until):
    unwanted, wanted = put(conn, "unwanted"), put(conn, "wanted")
    cancel(conn, unwanted)
    working(lambda _: until(lambda: column(conn, STATUS) == ["cancelled", "completed"]))
    assert column(conn, SAID) == ["You said: wanted"]
    assert row(conn, "messages", wanted)["retry_count"] == 0
    assert row(conn, "messages", unwanted)["last_error"] == "unwanted"


def test_a_cancelled_turn_ends_with_all_its_processes_and_the_rest_of_its_batch_runs_again(conn, coder, until):
    unwanted = put(conn, "stay", agent="coder")
    put(conn, "context", agent="coder", trigger=False)
    other = put(conn, "other", agent="coder")

    async def deed(service):
        (run,) = await until(coder)
        assert run["texts"] == ["stay", "context", "other"]
        assert not is_gone(run)
        cancel(conn, unwanted)
        service.worker.wake()
        await until(lambda: is_gone(run))
        await until(lambda: column(conn, STATUS) == ["cancelled", "completed", "completed"])

    working(deed)
    assert [run["texts"] for run in coder()] == [["stay", "context", "other"], ["context", "other"]]
    assert column(conn, SAID) == ["context and other"]
    assert (row(conn, "messages", other)["retry_count"], row(conn, "messages", unwanted)["claimed_by"]) == (0, None)
    told = rows(conn, "SELECT type, message_id FROM events WHERE type IN ('message_cancelled', 'message_released')")
    ids = column(conn, "SELECT message_id FROM messages ORDER BY id")
    assert told == [("message_cancelled", ids[0]), ("message_released", ids[2])]


def test_two_messages_of_a_turn_are_cancelled_at_once(conn, db, coder, until):
    texts = ["stay", "second", "third"]
    first, second, third = (put(conn, text, agent="coder") for text in texts)
    refused = []

    def cancel_apart(row_id, start):
        own = open_connection(db)
        start.wait()
        try:
            cancel(own, row_id)
        except WrongState as error:
            refused.append(str(error))
        own.close()

    async def deed(service):
        await until(coder)
        start = threading.Barrier(4)
        threads = [threading.Thread(target=cancel_apart, args=(id_, start)) for id_ in (first, second, first, second)]
        for thread in threads:
            thread.start()
        service.worker.wake()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        service.worker.wake()
        await until(lambda: column(conn, STATUS) == ["cancelled", "cancelled", "completed"])

    working(deed)
    assert len(refused) == 2
    assert all("is cancelled; it can't be cancelled" in text for text in refused)
    assert coder()[-1]["texts"] == ["third"]
    assert row(conn, "messages", third)["retry_count"] == 0
    assert column(conn, SAID) == ["third"]


def test_a_turn_cancelled_while_it_settles_says_nothing(conn, tmp_path, until):
    """The fence decides: the cancel was first."""
    make_agent(conn, "waiter", provider="command", config={"command": [sys.executable, "-I", "-c", WAITS]})
    gate = tmp_path / "agents" / "waiter" / "shared" / "gate"
    gate.parent.mkdir(parents=True)
    os.mkfifo(gate)
    first, other = put(conn, "first", agent="waiter"), put(conn, "other", agent="waiter")

    async def deed(service):
        await service.claim_and_start()
        waiting = await asyncio.to_thread(gate.open, "w")  # returns when the program waits
        with transaction(conn):  # the settlement waits for our lock
            (running,) = service.running_turns.values()
            waiting.close()
            await until(lambda: running.task and not running.is_interruptible and service.writer._waiting == [])
            messages.cancel(conn, first, reason="unwanted", now_ms=clock.now_ms())
        await until(lambda: not service.worker.running)
        assert column(conn, STATUS) == ["cancelled", "pending"]
        assert column(conn, SAID) == column(conn, "SELECT content FROM agent_messages") == []
        await service.claim_and_start()
        await asyncio.to_thread(gate.write_text, "")
        await until(lambda: not service.worker.running)

    async def go():
        service = Dispatch(Settings.load())
        await deed(service)
        await service.close()

    asyncio.run(go())
    assert column(conn, STATUS) == ["cancelled", "completed"]
    assert column(conn, SAID) == ["other"]
    assert row(conn, "messages", other)["retry_count"] == 0


def test_of_a_cancel_and_a_settlement_the_first_one_wins(conn, db, until):
    """Repeated at different instants: a message is answered or cancelled, never both."""
    count = 30
    ids = [put(conn, "hello", chat=str(number)) for number in range(count)]
    outcomes = {}

    def cancel_all():
        own = open_connection(db)
        for id_ in ids:
            while row(own, "messages", id_)["status"] == "pending":
                pass
            try:
                cancel(own, id_)
                outcomes[id_] = "cancelled"
            except WrongState:
                outcomes[id_] = "completed"
        own.close()

    async def deed(_):
        await asyncio.to_thread(cancel_all)
        await until(lambda: not {"pending", "processing"} & set(column(conn, STATUS)))

    working(deed)
    assert dict(rows(conn, "SELECT id, status FROM messages")) == outcomes
    answered = column(conn, "SELECT in_reply_to FROM responses ORDER BY id")
    assert sorted(answered) == [id_ for id_ in ids if outcomes[id_] == "completed"]


# -- urgent


def test_an_urgent_message_interrupts_the_turn_and_runs_with_its_batch(conn, coder, until):
    put(conn, "stay", agent="coder")

    async def deed(service):
        (run,) = await until(coder)
        put(conn, "context", agent="coder", trigger=False)
        put(conn, "normal", agent="coder")
        service.worker.wake()
        await asyncio.sleep(0.05)
        assert not is_gone(run)  # a normal message waits
        put(conn, "go", agent="coder", urgency="urgent")
        service.worker.wake()
        await until(lambda: set(column(conn, STATUS)) == {"completed"})
        await until(lambda: is_gone(run))

    working(deed)
    assert coder()[-1]["texts"] == ["stay", "context", "normal", "go"]
    assert column(conn, "SELECT DISTINCT retry_count FROM messages") == [0]
    assert column(conn, SAID) == ["stay and context and normal and go"]


def test_an_urgent_message_runs_before_a_session_that_waits_longer(conn, coder, until):
    """Otherwise the interrupted agent would run another session."""
    older = put(conn, "older", agent="coder", chat="2", status="paused")
    put(conn, "stay", agent="coder", chat="1")

    async def deed(service):
        await until(coder)
        rows(conn, "UPDATE messages SET status = 'pending' WHERE id = :id", {"id": older})
        put(conn, "go", agent="coder", chat="1", urgency="urgent")
        service.worker.wake()
        await until(lambda: set(column(conn, STATUS)) == {"completed"})

    working(deed)
    assert [run["texts"] for run in coder()] == [["stay"], ["stay", "go"], ["older"]]


# -- pause, resume, retry


def test_a_paused_message_waits_until_it_is_resumed_and_blocks_no_other(conn, until):
    put(conn, "paused", series_id="series_1", scheduled_at=1)
    put(conn, "next")
    with transaction(conn):
        series.pause(conn, "series_1", now_ms=clock.now_ms())

    async def deed(service):
        await until(lambda: column(conn, STATUS) == ["paused", "completed"])
        service.worker.wake()
        await asyncio.sleep(0.05)
        assert column(conn, STATUS) == ["paused", "completed"]
        with transaction(conn):
            series.resume(conn, "series_1", now_ms=clock.now_ms())
        service.worker.wake()
        await until(lambda: column(conn, STATUS) == ["completed", "completed"])

    working(deed)
    assert column(conn, SAID) == ["You said: next", "You said: paused"]


def test_a_retried_dead_message_has_all_its_attempts_again(conn, until, monkeypatch):
    monkeypatch.setenv("POSTROOM_MAX_ATTEMPTS", "2")
    dead = put(conn, "!fail 1000")

    async def deed(service):
        await until(lambda: column(conn, STATUS) == ["dead"])
        with transaction(conn):
            rows(conn, "UPDATE messages SET message = '!fail 1'")
        by_hand(conn, "retry", dead)
        assert row(conn, "messages")["retry_count"] == 0
        service.worker.wake()
        await until(lambda: column(conn, STATUS) == ["completed"])

    working(deed)
    assert column(conn, SAID)[-1] == "Attempt 2 worked."
    types = column(conn, "SELECT type FROM events WHERE type GLOB 'message_*' ORDER BY id")
    assert types == ["message_received", "message_retry", "message_dead", "message_retried", "message_retry"]
