"""A 2xx keeps its promise through kill -9 of everything and the loss of the disk, ``replicated`` and ``local``."""

import json
import os
import random
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import System, until
from tests.e2e.test_first_light import say
from tests.emulator.harness import copy_project, descendants

pytestmark = [pytest.mark.e2e, pytest.mark.any_python]

PEOPLE = 12
PATIENCE_S = 90.0  # a round to the bucket takes seconds where much else runs


@pytest.fixture
def dice() -> random.Random:
    """Seeded from the environment to replay a failure, else at random; pytest prints the seed of a failure."""
    seed = int(os.environ.get("CRASH_SEED") or random.randrange(2**32))
    print(f"replay with CRASH_SEED={seed}")
    return random.Random(seed)


@contextmanager
def running(state: Path, durability: str, timeout_ms: int = 2000) -> Iterator[System]:
    """A system with this durability and this time limit for the bucket."""
    project = copy_project(state.with_name("project"))
    settings = {
        "POSTROOM_DURABILITY": durability,
        "POSTROOM_REPLICATION_TIMEOUT_MS": timeout_ms,
        "POSTROOM_PACE_SENDS": "false",  # the fakes let everything through
        "POSTROOM_SENDER_LIMIT": 0,  # few people write as fast as they are answered
        "POSTROOM_SENDER_BYTES": 0,
    }
    (project / ".env").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    system = System(state, project=project)
    system.start()
    system.post("/control/limits", {"on": False}, "platforms")  # people write faster than Telegram lets the bot answer
    try:
        yield system
    finally:
        system.stop()


def update(number: int, person: int) -> dict[str, Any]:
    """An update with a text to the bot; *number* makes it unique, and is its text."""
    who = {"id": person, "is_bot": False, "first_name": "Ana"}
    chat = {"id": person, "type": "private", "first_name": "Ana"}
    message = {"message_id": number, "date": 1_760_000_000, "chat": chat, "from": who, "text": f"text {number}"}
    return {"update_id": number, "message": message}


def deliver(system: System, number: int, person: int = 7) -> int:
    """Deliver one signed update as Telegram does; the status of the answer."""
    environment = json.loads((system.state / "instance.json").read_text())["environment"]
    headers = {"X-Telegram-Bot-Api-Secret-Token": environment["TELEGRAM_WEBHOOK_SECRET"]}
    return system.post("/webhooks/telegram", update(number, person), headers=headers)[0]


class Platform:
    """Many people write at once, until the system is gone; ``acknowledged`` has the texts that got a 200."""

    def __init__(self, system: System, first: int) -> None:
        self._system = system
        self._first = first
        self.acknowledged: list[str] = []
        self._threads = [threading.Thread(target=self._write, args=(each,)) for each in range(PEOPLE)]
        for thread in self._threads:
            thread.start()

    def _write(self, person: int) -> None:
        for number in range(self._first + person, self._first + 1_000_000, PEOPLE):
            try:
                status = deliver(self._system, number, 100 + person)
            except (OSError, ValueError):
                return
            if status == 200:
                self.acknowledged.append(f"text {number}")

    def finish(self) -> set[str]:
        """Wait for all writers; every acknowledged text."""
        for thread in self._threads:
            thread.join(90)
        return set(self.acknowledged)


def kill_everything(system: System) -> None:
    """Kill -9 all processes at once."""
    assert system._process is not None
    for pid in descendants(system._process.pid):
        with suppress(ProcessLookupError):  # it ended with its parent
            os.kill(pid, signal.SIGKILL)
    system.kill()


def lose_everything(system: System) -> None:
    """Kill all processes and delete the disk, so that only the bucket is left."""
    kill_everything(system)
    lose_the_disk(system)


def lose_the_disk(system: System) -> None:
    for path in system.state.glob("*postroom.db*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert not (system.state / "postroom.db").exists()


def texts(system: System) -> list[str]:
    return [text for (text,) in system.query("SELECT message FROM messages WHERE message LIKE 'text %'")]


def acknowledged_till_all_is_lost(system: System, platform: Platform) -> set[str]:
    lose_everything(system)
    return platform.finish()


def assert_there_once(acknowledged: set[str], system: System, when: str) -> None:
    """Every text that ever got a 200 is there, and none twice."""
    found = texts(system)
    assert acknowledged <= set(found), when
    assert len(found) == len(set(found)), when


def deliveries(system: System) -> list[dict[str, Any]]:
    """The updates of the fake platform, with the last answer to each."""
    found: list[dict[str, Any]] = system.get("/control/telegram/webhook", "platforms")[1]["deliveries"]
    return found


def pid_of(system: System, part: str) -> int:
    """The process id of ``s3``, or of Litestream, which is the ``replica``."""
    return int(system.get("/_emulator/status")[1][part]["pid"])


def test_messages_acknowledged_as_replicated_outlive_all_processes_and_the_disk(
    tmp_path: Path, dice: random.Random
) -> None:
    with running(tmp_path / "state", "replicated", timeout_ms=8000) as system:
        platform = Platform(system, first=1000)
        enough = dice.randrange(20, 120)
        until("people to write", lambda: len(platform.acknowledged) >= enough, PATIENCE_S)
        acknowledged = acknowledged_till_all_is_lost(system, platform)
        system.start()
        assert_there_once(acknowledged, system, "its only life")


@pytest.mark.long
def test_while_the_bucket_is_away_nothing_is_acknowledged_and_a_redelivery_is_stored_once(tmp_path: Path) -> None:
    with running(tmp_path / "state", "replicated") as system:
        s3 = pid_of(system, "s3")
        os.kill(s3, signal.SIGSTOP)
        try:
            say(system, "text 0")
            assert [deliver(system, 1) for _ in range(2)] == [503, 503]
            until("the platform to be refused", lambda: [each["status"] for each in deliveries(system)] == [503])
        finally:
            os.kill(s3, signal.SIGCONT)
        until("the redelivery to be taken", lambda: deliver(system, 1) == 200)
        until("the platform's own redelivery", lambda: [each["status"] for each in deliveries(system)] == [200])
        lose_everything(system)
        system.start()
        assert sorted(texts(system)) == ["text 0", "text 1"]


@pytest.mark.long
def test_acknowledged_messages_outlive_repeated_losses_of_the_disk(tmp_path: Path, dice: random.Random) -> None:
    acknowledged: set[str] = set()
    with running(tmp_path / "state", "local,telegram=replicated", timeout_ms=8000) as system:
        for life in range(1, 6):
            platform = Platform(system, first=life * 1_000_000)
            enough = dice.randrange(1, 300)
            until("people to write", lambda: len(platform.acknowledged) >= enough, PATIENCE_S)  # noqa: B023 - waited for here
            acknowledged |= acknowledged_till_all_is_lost(system, platform)
            system.start()
            assert_there_once(acknowledged, system, f"life {life}")


@pytest.mark.long
def test_messages_acknowledged_around_kills_of_functions_outlive_the_disk(tmp_path: Path, dice: random.Random) -> None:
    """Some die in a commit by chance; in ``tests/infra/litestream/test_checkpoints.py`` one surely does."""
    acknowledged: set[str] = set()
    with running(tmp_path / "state", "replicated", timeout_ms=8000) as system:
        for life in range(1, 4):
            platform = Platform(system, first=life * 1_000_000)
            for name in [*dice.choices(["dispatch", "deliver"], k=6), None]:
                enough = len(platform.acknowledged) + dice.randrange(20, 80)  # those of the moment wait already
                until("more to be acknowledged", lambda: len(platform.acknowledged) >= enough, PATIENCE_S)  # noqa: B023
                if name is not None:
                    os.kill(until("a process of it", lambda: system.pids()[name]), signal.SIGKILL)  # noqa: B023
            acknowledged |= acknowledged_till_all_is_lost(system, platform)
            system.start()
            assert_there_once(acknowledged, system, f"life {life}")


@pytest.mark.long
def test_messages_acknowledged_while_litestream_restarted_outlive_the_disk(tmp_path: Path, dice: random.Random) -> None:
    acknowledged: set[str] = set()
    with running(tmp_path / "state", "replicated", timeout_ms=8000) as system:
        for life in range(1, 5):
            platform = Platform(system, first=life * 1_000_000)
            until("people to write", lambda: platform.acknowledged, PATIENCE_S)  # noqa: B023 - waited for here
            os.kill(pid_of(system, "replica"), signal.SIGKILL)
            enough = len(platform.acknowledged) + dice.randrange(1, 40)
            until("the yes of another", lambda: len(platform.acknowledged) >= enough, PATIENCE_S)  # noqa: B023
            acknowledged |= acknowledged_till_all_is_lost(system, platform)
            system.start()
            assert_there_once(acknowledged, system, f"life {life}")


@pytest.mark.long
def test_local_durability_loses_unsent_messages_with_the_disk_and_none_without(tmp_path: Path) -> None:
    """The 200 says that the row is on this disk. Litestream is stopped here, which widens a gap of 0.25 s at most."""
    with running(tmp_path / "state", "local") as system:
        assert deliver(system, 1) == 200
        until("the first to be replicated", lambda: not system.get("/_emulator/status")[1]["replica"]["behind"])
        os.kill(pid_of(system, "replica"), signal.SIGSTOP)
        assert deliver(system, 2) == 200

        kill_everything(system)
        system.start()
        assert sorted(texts(system)) == ["text 1", "text 2"]

        os.kill(pid_of(system, "replica"), signal.SIGSTOP)
        assert deliver(system, 3) == 200
        lose_everything(system)
        system.start()
        assert sorted(texts(system)) == ["text 1", "text 2"]
