"""``ingest`` stores webhooks in a process of its own, ``ingest-writer``, whichever of the two ends first."""

import json
import os
import select
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from shared.db.engine.connection import open_connection, transaction
from shared.runtime.kick import Listener
from tests.forks import is_at
from tests.infra.processes import until
from tests.liveness import is_alive, opened
from tests.support import column

PRIVATE = json.loads((Path(__file__).parents[2] / "events/telegram/001_private_text.json").read_bytes())
SECRET = "hook-secret"
STOPS = [signal.SIGTERM, signal.SIGINT]


class Ingest:
    """``ingest`` as its command serves it."""

    def __init__(self, start, environment):
        environment = {**environment, "TELEGRAM_BOT_TOKEN": "1234567:t", "TELEGRAM_WEBHOOK_SECRET": SECRET}
        self.process = start("-m", "infra.runner", "ingest", "--port", "0", environment=environment)
        (line,) = self.process.wait_for("function.listening")
        (self.writer,) = children(self.process.pid)
        self.db = Path(environment["POSTROOM_DB"])
        self._url = f"http://127.0.0.1:{line['port']}/webhooks/telegram"

    def post(self, number):
        """The status of a webhook."""
        message = {**PRIVATE["message"], "message_id": number, "date": int(time.time())}
        update = {**PRIVATE, "update_id": number, "message": message}
        headers = {"x-telegram-bot-api-secret-token": SECRET}
        return httpx.post(self._url, json=update, headers=headers, timeout=60, trust_env=False).status_code

    def health(self):
        """Status and body of the health check."""
        answer = httpx.get(self._url.replace("/webhooks/telegram", "/healthz"), timeout=60, trust_env=False)
        return answer.status_code, answer.json()

    def replaced(self, *, times):
        """The process that is ready in place of the writer, which was replaced so often."""
        until(lambda: len(self.process.events("writer_process.replaced")) == times, "no other process is ready")
        return self.process.events("writer_process.replaced")[-1]["pid"]

    def waits_to_store(self):
        """Whether its writer stands at the gate of the database, for the first time."""
        return is_at(self.writer, self.db.with_name(f"{self.db.name}-gate"))


def children(pid):
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(word) for task in tasks for word in (task / "children").read_text().split()]


def has_open(pid, name):
    return any(path.endswith(f"/{name}") for path in opened(pid).values())


@pytest.fixture
def ingest(start, environment):
    return Ingest(start, environment)


@pytest.fixture
def conn(ingest):
    conn = open_connection(ingest.db)
    yield conn
    conn.close()


@pytest.fixture
def send():
    """Sends a webhook and returns at once; its status comes later."""
    with ThreadPoolExecutor() as pool:
        yield lambda ingest, number: pool.submit(ingest.post, number)


def stored(conn):
    """The numbers of the webhooks, each as often as it is stored."""
    return column(conn, "SELECT event_key FROM dropped ORDER BY id")


def test_another_process_stores_what_comes(ingest, conn):
    assert ingest.post(1) == 200

    assert Path(f"/proc/{ingest.writer}/comm").read_text() == "ingest-writer\n"
    assert has_open(ingest.writer, "p.db-wal")
    assert not has_open(ingest.process.pid, "p.db-wal")
    assert len(stored(conn)) == 1


@pytest.mark.parametrize("number", STOPS)
def test_a_stop_ends_both_and_leaves_no_zombie(ingest, number):
    assert ingest.post(1) == 200

    code, _ = ingest.process.stop(number)

    assert code == 0, "a stop beyond its limit ends with 1"
    assert not Path(f"/proc/{ingest.writer}").exists()
    assert ingest.process.events("writer_process.ended") == []
    assert ingest.process.err == []


def test_a_stop_before_the_first_webhook_ends_both(ingest):
    assert ingest.process.stop(signal.SIGTERM)[0] == 0

    assert not Path(f"/proc/{ingest.writer}").exists()


@pytest.mark.parametrize("number", STOPS)
def test_a_signal_to_the_whole_group_answers_webhooks_under_way(ingest, conn, send, number):
    """As Ctrl-C does in a terminal."""
    with transaction(conn):
        asked = send(ingest, 1)
        until(ingest.waits_to_store, "no webhook came")
        os.killpg(ingest.process.pid, number)

    assert asked.result() == 200
    assert ingest.process.end() == 0
    assert not Path(f"/proc/{ingest.writer}").exists()
    assert len(stored(conn)) == 1


def test_a_stopped_writer_fails_the_health_check_until_ingest_stores_without_it(ingest, conn):
    """Before the time limit of a request."""
    assert ingest.post(1) == 200
    assert ingest.health()[0] == 200
    os.kill(ingest.writer, signal.SIGSTOP)
    until(lambda: ingest.health()[0] == 503, "the health check goes on")
    assert "it is stopped, as by SIGSTOP" in ingest.health()[1]["error"]

    assert ingest.post(2) == 200

    assert len(stored(conn)) == 2
    until(lambda: ingest.health()[0] == 200, "the health check still fails")
    (told,) = ingest.process.events("writer_process.hung")
    assert told["pid"] == ingest.writer


def test_a_writer_that_hangs_is_replaced_each_time_and_no_webhook_is_lost_or_stored_twice(ingest, conn):
    known, numbers = [ingest.writer], []
    for _ in range(2):
        os.kill(known[-1], signal.SIGSTOP)
        numbers.append(len(numbers) + 1)
        assert ingest.post(numbers[-1]) == 200
        known.append(ingest.replaced(times=len(known)))
        numbers.append(len(numbers) + 1)
        assert ingest.post(numbers[-1]) == 200
        assert ingest.health()[0] == 200
        assert has_open(known[-1], "p.db-wal")
        assert not is_alive(known[-2])

    assert len(set(known)) == 3
    assert Path(f"/proc/{known[-1]}/comm").read_text() == "ingest-writer\n"
    assert len(stored(conn)) == len(set(stored(conn))) == 4
    ingest.process.signal(signal.SIGKILL)
    until(lambda: not is_alive(known[-1]), "it outlives ingest")


def test_a_stopped_writer_ends_with_a_killed_ingest(ingest):
    os.kill(ingest.writer, signal.SIGSTOP)
    ingest.process.signal(signal.SIGKILL)

    until(lambda: not is_alive(ingest.writer), "the writer lives on")


def test_the_writer_ends_with_a_killed_ingest_and_the_next_one_stores_once(ingest, conn, send, start, environment):
    with transaction(conn):
        asked = send(ingest, 1)
        until(ingest.waits_to_store, "no webhook came")
        ingest.process.signal(signal.SIGKILL)
    assert isinstance(asked.exception(), httpx.HTTPError)

    until(lambda: not is_alive(ingest.writer), "the writer lives on")
    again = Ingest(start, environment)

    assert [again.post(number) for number in (1, 2)] == [200, 200]
    assert len(stored(conn)) == 2
    assert column(conn, "PRAGMA integrity_check") == ["ok"]


def test_what_a_killed_writer_had_committed_waits_for_no_tick(ingest, environment):
    listeners = [Listener(Path(environment["POSTROOM_RUN_DIR"]), name) for name in ("dispatch", "deliver", "api")]
    assert ingest.post(1) == 200
    for listener in listeners:
        listener.drain()

    os.kill(ingest.writer, signal.SIGKILL)

    until(lambda: all(select.select([each], [], [], 0)[0] for each in listeners), "somebody was not woken")
    for listener in listeners:
        listener.close()


def test_a_killed_writer_costs_no_webhook_and_the_log_says_what_follows(ingest, conn, send):
    with transaction(conn):
        asked = [send(ingest, 1)]
        until(ingest.waits_to_store, "no webhook came")
        os.kill(ingest.writer, signal.SIGKILL)
        (line,) = ingest.process.wait_for("writer_process.ended")
        asked.append(send(ingest, 2))
    found = [each.result() for each in asked]

    assert [*found, ingest.post(3)] == [200] * 3
    assert len(stored(conn)) == 3
    assert (line["level"], line["code"]) == ("error", -signal.SIGKILL)
    assert "nothing is lost" in line["consequence"]
    assert children(ingest.process.pid) == [ingest.replaced(times=1)]
    code, _ = ingest.process.stop(signal.SIGTERM)
    assert code == 0
    assert len(ingest.process.events("writer_process.ended")) == 1
