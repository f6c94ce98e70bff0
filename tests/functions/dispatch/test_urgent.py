"""An urgent message does not wait for a running turn, and any number of them lets a turn end."""

import asyncio
import time

import pytest

from functions.dispatch import Dispatch
from shared.core.settings import Settings
from shared.core.time import clock
from shared.db.engine.connection import rows, transaction
from shared.queue import cancellations
from shared.queue.teamwork import mailbox
from shared.queue.turns import CUT_OFF
from shared.runtime.kick import Kicker
from tests.functions.dispatch.working import batches
from tests.liveness import processes_naming
from tests.support import column, make_agent, put

STATES = "SELECT message, status, retry_count FROM messages ORDER BY id"


@pytest.fixture
def crew(conn):
    for name in ("alice", "bob"):
        make_agent(conn, name)


@pytest.fixture
def working(environment):
    """A running dispatch, and a way to kick it."""

    class Working:
        async def __aenter__(self):
            self.service = Dispatch(Settings.load())
            self.kicker = Kicker(environment)
            self.service.worker.begin()
            return self

        async def __aexit__(self, *_):
            self.kicker.close()
            await self.service.close()

        def kick(self):
            self.kicker.kick("dispatch")

    return Working


def send(conn, body, recipient="bob", sender="operator", **more):
    with transaction(conn):
        return mailbox.send(conn, sender, recipient, body, now_ms=clock.now_ms(), **more)


def is_running(conn, text):
    return [text] == column(conn, "SELECT message FROM messages WHERE status = 'processing'")


def test_an_urgent_message_restarts_the_turn_and_costs_no_attempt(conn, crew, until, working):
    send(conn, "!slow 300 never")

    async def go():
        async with working() as it:
            await until(lambda: is_running(conn, "!slow 300 never"))
            send(conn, "!say stop", urgency="urgent")
            it.kick()
            await until(lambda: len(batches(conn)) == 2)
            return rows(conn, STATES)

    assert asyncio.run(go()) == [("!slow 300 never", "processing", 0), ("!say stop", "processing", 0)]
    assert batches(conn) == [["!slow 300 never"], ["!slow 300 never", "!say stop"]]
    assert column(conn, "SELECT type FROM events WHERE type = 'message_released'")
    assert column(conn, "SELECT id FROM responses") == []


AGENT = """
sleep 300.0421 &
echo up >> shared/started
cat > asked.$$
if grep -q urgent asked.$$; then echo 'I stop'; exit; fi
wait
"""


def test_an_urgent_message_ends_the_turn_and_its_processes_within_a_tenth_of_a_second(conn, until, working, tmp_path):
    """The best of a few measurements, because the machine may be busy."""
    make_agent(conn, "bob", provider="command", config={"command": ["/bin/sh", "-c", AGENT]})
    folder = tmp_path / "agents" / "bob" / "shared"
    took_ms = []

    async def go():
        async with working() as it:
            for _ in range(5):
                (folder / "started").unlink(missing_ok=True)
                send(conn, "work")
                it.kick()
                await until((folder / "started").exists)
                assert processes_naming("300.0421")
                before = len(batches(conn))
                send(conn, "urgent", urgency="urgent")
                it.kick()
                began = time.monotonic()
                await until(lambda count=before: len(batches(conn)) > count)
                took_ms.append((time.monotonic() - began) * 1000)
                await until(lambda: column(conn, "SELECT DISTINCT status FROM messages") == ["completed"])
                assert processes_naming("300.0421") == []

    asyncio.run(go())
    assert min(took_ms) < 2000, took_ms  # waiting for the next tick would take five seconds
    assert column(conn, "SELECT DISTINCT message FROM responses") == ["I stop"]
    assert column(conn, "SELECT max(retry_count) FROM messages") == [0]


def test_more_urgent_messages_than_a_batch_holds_let_the_turn_finish(conn, crew, until, working, monkeypatch):
    """A turn used to restart as long as an urgent message waited, and so for ever."""
    monkeypatch.setenv("POSTROOM_BATCH_SIZE", "2")
    send(conn, "!slow 1 first")

    async def go():
        async with working() as it:
            await until(lambda: is_running(conn, "!slow 1 first"))
            with transaction(conn):
                for number in range(5):
                    text = f"!slow 0.05 {number}"
                    mailbox.send(conn, "operator", "bob", text, now_ms=clock.now_ms(), urgency="urgent")
            await until(lambda: it.kick() or column(conn, "SELECT DISTINCT status FROM messages") == ["completed"])

    asyncio.run(go())
    assert len(batches(conn)) <= 1 + 2 + 3
    assert column(conn, "SELECT message FROM responses ORDER BY id") == ["0", "1", "2", "3", "first", "4"]


def test_urgent_messages_that_cannot_share_a_turn_run_one_after_the_other(conn, crew, until, working):
    """The two messages need answers in two places; interrupting one for the other would never end."""
    put(conn, "!slow 300", agent="bob", chat="1")

    async def go():
        async with working() as it:
            await until(lambda: is_running(conn, "!slow 300"))
            for thread in ("a", "b"):
                put(conn, f"!slow 0.2 {thread}", agent="bob", chat="1", urgency="urgent")
                rows(
                    conn,
                    "UPDATE messages SET thread_id = :thread WHERE id = (SELECT max(id) FROM messages)",
                    {"thread": thread},
                )
            await until(lambda: it.kick() or column(conn, "SELECT message FROM responses ORDER BY id") == ["a", "b"])
            await until(lambda: is_running(conn, "!slow 300"))

    asyncio.run(go())
    assert batches(conn) == [["!slow 300"], ["!slow 0.2 a"], ["!slow 0.2 b"], ["!slow 300"]]


def test_a_busy_agent_is_interrupted_for_an_urgent_message_of_another_session(conn, crew, until, working):
    """A message between agents has a session of its own, which must not wait for a busy chat."""
    put(conn, "!slow 300", agent="bob")

    async def go():
        async with working() as it:
            await until(lambda: is_running(conn, "!slow 300"))
            send(conn, "!slow 0.3 stop", urgency="urgent")
            it.kick()
            await until(lambda: is_running(conn, "!slow 0.3 stop"))
            between = rows(conn, STATES)
            await until(lambda: is_running(conn, "!slow 300"))
            return between

    assert asyncio.run(go()) == [("!slow 300", "pending", 0), ("!slow 0.3 stop", "processing", 0)]
    assert batches(conn) == [["!slow 300"], ["!slow 0.3 stop"], ["!slow 300"]]


def test_an_agent_below_its_concurrency_is_not_interrupted(conn, until, working):
    make_agent(conn, "bob", concurrency=2)
    put(conn, "!slow 300", agent="bob")

    async def go():
        async with working() as it:
            await until(lambda: is_running(conn, "!slow 300"))
            send(conn, "hello", urgency="urgent")
            it.kick()
            await until(lambda: column(conn, "SELECT message FROM responses") == ["You said: hello"])
            assert is_running(conn, "!slow 300")

    asyncio.run(go())
    assert len(batches(conn)) == 2


def test_an_urgent_message_in_backoff_interrupts_nothing(conn, crew, until, working):
    failed = put(conn, "hard", agent="bob", chat="1")
    rows(
        conn,
        "UPDATE messages SET retry_count = 1, failure = 'error', process_after = :due WHERE id = :id",
        {"due": clock.now_ms() + 600_000, "id": failed},
    )
    put(conn, "!slow 0.5 done", agent="bob", chat="2")

    async def go():
        async with working() as it:
            await until(lambda: is_running(conn, "!slow 0.5 done"))
            put(conn, "stop", agent="bob", chat="1", urgency="urgent")
            await until(lambda: it.kick() or column(conn, "SELECT message FROM responses") == ["done"])

    asyncio.run(go())
    assert batches(conn) == [["!slow 0.5 done"]]


def test_an_urgent_message_right_after_the_claim_interrupts_the_turn(conn, crew, until):
    put(conn, "!slow 300", agent="bob")

    async def go():
        service = Dispatch(Settings.load())
        await service.claim_and_start()
        put(conn, "!slow 300 stop", agent="bob", urgency="urgent")
        service._interrupt()
        await until(lambda: not service.worker.running)
        await service.claim_and_start()
        await until(lambda: len(batches(conn)) == 2)
        await service.close()

    asyncio.run(go())
    assert batches(conn)[1] == ["!slow 300", "!slow 300 stop"]


SPEAKS, WORKS = '!tool send_message {"text": "on it"}', "!slow 300 never"
ENDED = "SELECT message, status, failure FROM messages WHERE status <> 'completed' ORDER BY id"


async def speak(conn, until, it):
    """Begin a turn that says something and works on; the ids of its two messages."""
    at_ms = clock.now_ms()
    ids = [put(conn, text, agent="bob", now_ms=at_ms) for text in (SPEAKS, WORKS)]
    it.kick()
    await until(lambda: column(conn, "SELECT message FROM responses") == ["on it"])
    return ids


def by_an_urgent_message(conn, it, ids):
    put(conn, "!say now", agent="bob", urgency="urgent", now_ms=clock.now_ms())
    it.kick()


def by_a_cancellation(conn, it, ids):
    with transaction(conn):
        cancellations.cancel(conn, ids[1], reason="by the test", now_ms=clock.now_ms())
    it.kick()


@pytest.mark.parametrize(
    ("end", "second", "answer"),
    [(by_an_urgent_message, ("dead", "interrupted"), ["now"]), (by_a_cancellation, ("cancelled", None), [])],
)
def test_a_turn_that_has_spoken_ends_for_good(conn, crew, until, working, end, second, answer):
    async def go():
        async with working() as it:
            end(conn, it, await speak(conn, until, it))
            await until(lambda: not column(conn, "SELECT id FROM messages WHERE status IN ('pending', 'processing')"))
            await until(lambda: it.service.worker.running == 0)

    asyncio.run(go())
    assert rows(conn, ENDED) == [(SPEAKS, "dead", "interrupted"), (WORKS, *second)]
    texts = column(conn, "SELECT message FROM responses ORDER BY id")
    assert (texts[0], set(texts[1:]), texts.count(CUT_OFF)) == ("on it", {CUT_OFF, *answer}, 1)


def test_a_turn_that_has_spoken_is_not_run_again_after_a_stop(conn, crew, until, working):
    async def go():
        async with working() as it:
            await speak(conn, until, it)
        async with working() as it:
            it.kick()
            put(conn, "!say later", agent="bob", now_ms=clock.now_ms())
            it.kick()
            await until(lambda: "later" in column(conn, "SELECT message FROM responses"))

    asyncio.run(go())
    assert rows(conn, ENDED) == [(SPEAKS, "dead", "interrupted"), (WORKS, "dead", "interrupted")]
    assert column(conn, "SELECT message FROM responses ORDER BY id") == ["on it", CUT_OFF, "later"]
