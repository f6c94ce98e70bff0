"""How a turn ends beside its answer: stops, kills, a lost lease, a full disk. None is left, and none ends twice."""

import asyncio
import subprocess
import sys

from functions.dispatch import Dispatch
from shared.core.settings import Settings
from shared.core.time import clock
from shared.db.engine.connection import rows, transaction
from shared.db.queue import messages
from shared.turns.run.turn_runner import RunningTurn
from tests.liveness import processes_naming
from tests.support import column, make_agent, put, row, take

STATUS = "SELECT status FROM messages ORDER BY id"


def test_a_stop_gives_the_turn_back_without_counting_an_attempt(conn):
    put(conn, "!slow 300")

    async def go():
        service = Dispatch(Settings.load())
        await service.claim_and_start()
        while column(conn, STATUS) != ["processing"]:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await service.close()

    asyncio.run(go())
    assert rows(conn, "SELECT status, retry_count, process_after, claimed_by FROM messages") == [
        ("pending", 0, None, None)
    ]


def test_a_turn_that_lost_its_lease_ends_without_an_answer(conn, until, monkeypatch):
    monkeypatch.setenv("POSTROOM_LEASE_MS", "1000")
    put(conn, "!slow 300 too late")

    async def go():
        service = Dispatch(Settings.load())
        await service.claim_and_start()
        with transaction(conn):
            rows(conn, "UPDATE messages SET claimed_by = 'thief'")
        await until(lambda: not service.worker.running)
        await service.close()

    asyncio.run(go())
    assert rows(conn, "SELECT status, claimed_by FROM messages") == [("processing", "thief")]
    assert column(conn, "SELECT id FROM responses") == []


def test_a_running_turn_renews_its_lease(conn, until, monkeypatch):
    monkeypatch.setenv("POSTROOM_LEASE_MS", "1000")
    put(conn, "!slow 300")

    async def go():
        service = Dispatch(Settings.load())
        await service.claim_and_start()
        first = row(conn, "messages")["lease"]
        await until(lambda: row(conn, "messages")["lease"] > first)
        await service.close()
        return first

    assert asyncio.run(go()) > 0


def test_a_settlement_is_repeated_while_the_disk_is_full(conn):
    put(conn, "hello")

    async def go():
        service = Dispatch(Settings.load())
        rows(conn, "CREATE TRIGGER full BEFORE INSERT ON responses BEGIN SELECT raise(ABORT, 'full'); END")
        await service.claim_and_start()
        await asyncio.sleep(0.02)
        rows(conn, "DROP TRIGGER full")
        while service.worker.running:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        await service.close()

    asyncio.run(go())
    assert column(conn, STATUS) == ["completed"]
    assert column(conn, "SELECT message FROM responses") == ["You said: hello"]


def test_a_new_dispatch_fails_the_turns_of_a_process_that_is_gone(conn, to_the_end):
    put(conn, "hello")
    take(conn)

    to_the_end()
    assert column(conn, STATUS) == ["completed"]
    assert column(conn, "SELECT type FROM events WHERE type = 'message_retry'") == ["message_retry"]
    assert column(conn, "SELECT message FROM responses") == ["You said: hello"]


KILLED = """
import asyncio, sys
from functions.dispatch import Dispatch
from shared.agents.programs.limits import Limits
from shared.core.settings import Settings

async def main():
    service = Dispatch(Settings.load())
    service.worker.begin()
    await asyncio.sleep(300)

asyncio.run(main())
"""


def test_after_a_kill_in_mid_turn_the_message_is_answered_once(conn, until):
    put(conn, "!slow 300")

    async def go():
        process = subprocess.Popen([sys.executable, "-c", KILLED])  # noqa: ASYNC220 - killed below
        with process:
            await until(lambda: column(conn, STATUS) == ["processing"])
            process.kill()
        rows(conn, "UPDATE messages SET message = '!slow 0 the answer'")
        service = Dispatch(Settings.load())
        service.worker.begin()
        await until(lambda: column(conn, STATUS) == ["completed"])
        await service.close()

    asyncio.run(go())
    assert column(conn, "SELECT message FROM responses") == ["the answer"]
    assert row(conn, "messages")["retry_count"] == 0


def test_a_turn_fails_with_a_reason_when_its_agents_row_is_gone(conn):
    make_agent(conn, "short")
    put(conn, agent="short")

    async def go():
        service = Dispatch(Settings.load())
        rows(conn, "PRAGMA foreign_keys = OFF")
        claim = take(conn, agent="short")
        rows(conn, "DELETE FROM agents WHERE id = 'short'")
        await service.runner.run(RunningTurn(claim, 10))
        await service.close()

    asyncio.run(go())
    assert (
        row(conn, "messages")["last_error"] == "agent 'short' no longer exists: create it again, then retry the message"
    )


ANSWERS_AND_STAYS = """
import sys, time
print('{"type": "result", "text": "the answer"}', flush=True)
sys.stdin.read()
open("shared/knows", "w").close()
time.sleep(600)
"""


def test_a_stop_after_the_result_keeps_the_answer_although_the_program_has_not_ended(conn, until):
    config = {"command": [sys.executable, "-I", "-c", ANSWERS_AND_STAYS]}
    make_agent(conn, "stays", provider="command", config=config)
    put(conn, agent="stays")

    async def go():
        service = Dispatch(Settings.load())
        await service.claim_and_start()
        await until((service.settings.agents_dir / "stays" / "shared" / "knows").exists)
        await service.close()

    asyncio.run(asyncio.wait_for(go(), 120))
    assert (column(conn, STATUS), column(conn, "SELECT message FROM responses")) == (["completed"], ["the answer"])


LEAVER = """
import json, os, subprocess, sys
json.load(sys.stdin)
left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", sys.argv[0]], start_new_session=True)
open("shared/ready", "w").close()
import time; time.sleep(600)
"""


def test_a_cancelled_turn_leaves_no_process_not_even_in_another_session(conn, tmp_path, until):
    program = tmp_path / "leaver.py"
    program.write_text(LEAVER)
    make_agent(conn, "leaver", provider="command", config={"command": [sys.executable, str(program)]})
    waiting = put(conn, agent="leaver")

    async def go():
        service = Dispatch(Settings.load())
        await service.claim_and_start()
        note = service.settings.agents_dir / "leaver" / "shared" / "ready"
        await until(note.exists)
        assert len(processes_naming(str(program))) >= 2
        with transaction(conn):
            messages.cancel(conn, waiting, reason="by hand", now_ms=clock.now_ms())
        await service.claim_and_start()
        await until(lambda: not service.worker.running)
        await service.close()

    asyncio.run(asyncio.wait_for(go(), 120))
    assert processes_naming(str(program)) == []
    assert row(conn, "messages")["status"] == "cancelled"
