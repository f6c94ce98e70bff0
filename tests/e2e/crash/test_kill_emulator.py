"""kill -9 under the emulator, of its processes and of itself, while people write to its platforms.

Its fake platform dies with it and keeps only its newest calls, so this test checks less than ``test_kill``.
"""

import os
import random
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import System, until
from tests.e2e.test_first_light import restored, rows, say
from tests.emulator.harness import copy_project

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.crash]

PEOPLE = [str(5000000100 + number) for number in range(6)]
MESSAGES_EACH = 50
PACE_S = 0.03  # the writing lasts as long as the killing
KILLS = 14
VICTIMS = ("ingest", "dispatch", "deliver", "dispatch", "deliver", "litestream", "s3")


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    """A system that sends 300 answers within seconds; its platforms allow that."""
    project = copy_project(tmp_path / "project")
    (project / ".env").write_text("POSTROOM_PACE_SENDS=false\n")
    running = System(tmp_path / "state", project=project)
    try:
        running.start()
        running.post("/control/limits", {"on": False}, "platforms")
        yield running
    finally:
        running.stop()


def write_all(system: System, done: threading.Event, unsure: Counter[str]) -> None:
    """All people write, in turn. The platform keeps a message that the system refuses, and delivers it again.

    *unsure* counts messages that were written again because the fake platform was killed before it confirmed them.
    """
    for number in range(MESSAGES_EACH):
        for person in PEOPLE:
            text = f"{person} {number:03}"
            while True:
                try:
                    say(system, f"!slow 0.02 {text}", person)
                    break
                except (OSError, KeyError, ValueError):
                    unsure[text] += 1
                    time.sleep(0.1)
            time.sleep(PACE_S)
    done.set()


def kill_one(system: System, victim: str) -> None:
    """Kill one process, unless it or the status is gone."""
    try:
        status = system.get("/_emulator/status")[1]
    except (OSError, KeyError, ValueError):
        return
    pids = {each["name"]: each["pid"] for each in status["functions"]}
    pids |= {"s3": status["s3"]["pid"], "litestream": status["replica"]["pid"]}
    if pids.get(victim):
        os.kill(pids[victim], signal.SIGKILL)


def test_the_emulator_restarts_killed_processes_and_its_own_kill_loses_nothing(
    system: System, seed: int, tmp_path: Path
) -> None:
    dice = random.Random(seed)
    done = threading.Event()
    unsure: Counter[str] = Counter()
    writer = threading.Thread(target=write_all, args=(system, done, unsure), daemon=True)
    writer.start()

    for kill in range(KILLS):
        time.sleep(dice.uniform(0.2, 1.2))
        if kill == KILLS // 2:
            system.kill()  # all at once
            system.start()
        else:
            kill_one(system, dice.choice(VICTIMS))
    until("all people to have written", done.is_set, 240)
    expected = {f"{person} {number:03}" for person in PEOPLE for number in range(MESSAGES_EACH)}

    def settled() -> bool:
        answered = "SELECT count(DISTINCT message) FROM responses WHERE status = 'acked'"
        unfinished = (
            "SELECT 1 FROM messages WHERE status <> 'completed' UNION SELECT 1 FROM responses WHERE status <> 'acked'"
        )
        return system.query(answered) == [(len(expected),)] and not system.query(unfinished)

    until("all answers to be out", settled, 240)

    # Stored once, answered once each.
    asked = system.query("SELECT substr(message, 12), count(*) FROM messages GROUP BY message")
    assert {text for text, _ in asked} == expected
    assert not {text: count for text, count in asked if count > 1 + unsure[text]}
    assert {text for (text,) in system.query("SELECT message FROM responses")} == expected
    # Sent in order, and twice only where the row says that the first outcome was unknown.
    calls = system.get("/control/telegram/calls?method=sendMessage", "platforms")[1]["calls"]
    texts = [call["params"]["text"] for call in calls if call["status"] == 200]
    sends = Counter(texts)
    unknown = Counter(
        dict(
            system.query(
                "SELECT r.message, count(*) FROM events e JOIN responses r ON r.id = e.response_id"
                " WHERE e.type = 'response_outcome_unknown' GROUP BY r.id"
            )
        )
    )
    # Only the newest calls are kept; none of them may be unexpected, unexplained or out of order.
    assert set(sends) <= expected
    assert not {text: count for text, count in sends.items() if count > 1 + unknown[text] + unsure[text]}
    for person in PEOPLE:
        numbers = [int(match[1]) for text in dict.fromkeys(texts) if (match := re.match(rf"{person} (\d+)", text))]
        assert numbers == sorted(numbers)
    struck = dict(system.query("SELECT type, count(*) FROM events GROUP BY type"))
    print(f"turns tried again: {struck.get('message_retry', 0)}, sends of unknown outcome: {sum(unknown.values())}")
    # The file is sound, and the replica has all of it.
    assert system.query("PRAGMA integrity_check") == [("ok",)]
    counted = "SELECT count(*) FROM responses WHERE status = 'acked'"
    until("the replica to catch up", lambda: rows(restored(system, tmp_path), counted) == system.query(counted), 60)
