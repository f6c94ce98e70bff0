"""P7 while dispatch is killed at random instants: nothing is said twice, and what was told as sent is there.

The agent is in the process that is killed, so its death may lie between any two statements, and before or after the
answer of a tool.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

from shared.db.engine.connection import rows
from shared.queue.turns import APOLOGY, CUT_OFF
from tests.serving import environment
from tests.support import column, make_agent, put

__all__ = ["environment"]

SPEAKER = Path(__file__).with_name("speaker.py")
OPEN = "SELECT count(*) FROM messages WHERE status = 'pending' OR status = 'processing'"
CHATS = [str(chat) for chat in range(200, 212)]


@contextmanager
def speaker(journal):
    """A way to start a dispatch, and to wait for its death."""
    server = subprocess.Popen(
        [sys.executable, str(SPEAKER), str(journal)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SPEAKER.parents[3])},
    )

    def start():
        server.stdin.write("\n")
        server.stdin.flush()
        return int(server.stdout.readline())

    try:
        yield start
    finally:
        server.stdin.close()
        server.terminate()
        server.wait()
        server.stdout.close()


def run(conn, journal, kills, seed):
    dice = random.Random(seed)
    make_agent(conn, "once", provider="echo", concurrency=6)
    make_agent(conn, "again", provider="echo", concurrency=6, resume_spoken=True)
    rows(conn, "UPDATE agents SET provider = 'speaker' WHERE id <> 'assistant'")
    number = 0
    with speaker(journal) as start:
        for _ in range(kills):
            for _ in range(4):
                number += 1
                put(conn, f"m{number:05}", agent=dice.choice(["once", "again"]), chat=dice.choice(CHATS))
            pid = start()
            time.sleep(dice.uniform(0.02, 0.25))
            os.kill(pid, signal.SIGKILL)
        pid = start()
        deadline = time.monotonic() + 120
        while column(conn, OPEN) != [0] and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(pid, signal.SIGKILL)


def check(conn, journal):
    """Every promise about what was said; how often each end came."""
    told = set(journal.read_text().splitlines())
    said = column(conn, "SELECT message FROM responses WHERE message LIKE 'm%' ORDER BY id")
    assert [text for text, count in Counter(said).items() if count > 1] == [], "said twice"
    assert told - set(said) == set(), "told as sent, and not there"
    ends = rows(conn, "SELECT id, message, status, spoken IS NOT NULL FROM messages ORDER BY id")
    assert {status for _, _, status, _ in ends} <= {"completed", "dead"}, "not ended"
    for _, name, status, has_spoken in ends:
        mine = [text for text in said if text.startswith(name)]
        assert mine == sorted(mine, key=lambda text: (text.endswith("final"), text)), "out of order"
        assert not (status == "dead" and has_spoken and any(text.endswith("final") for text in mine))
    sorries = set(column(conn, "SELECT in_reply_to FROM responses WHERE message IN (:a, :b)", a=APOLOGY, b=CUT_OFF))
    alone = {row_id for row_id, _, status, has_spoken in ends if status == "dead" and not has_spoken}
    assert alone <= sorries, "dead, and nobody was told"
    stories = set(column(conn, "SELECT spoken FROM messages WHERE status = 'dead' AND spoken IS NOT NULL"))
    cut_off = "SELECT m.spoken FROM messages m JOIN responses r ON r.in_reply_to = m.id WHERE r.message IN (:a, :b)"
    assert stories <= set(column(conn, cut_off, a=APOLOGY, b=CUT_OFF)), "cut off, and nobody was told"
    return Counter((status, bool(has_spoken)) for _, _, status, has_spoken in ends)


@pytest.mark.any_python
def test_a_few_kills_say_nothing_twice_and_lose_nothing_that_was_told_as_sent(conn, tmp_path):
    run(conn, tmp_path / "journal", 12, seed=1)
    ends = check(conn, tmp_path / "journal")
    assert ends["dead", True] > 0, "no kill has hit a turn that had spoken"


@pytest.mark.long
@pytest.mark.crash
def test_over_two_hundred_kills_say_nothing_twice_and_lose_nothing_that_was_told_as_sent(conn, tmp_path, seed, scale):
    run(conn, tmp_path / "journal", int(220 * scale), seed)
    ends = check(conn, tmp_path / "journal")
    print(dict(ends))
    assert ends["dead", True] > 20
    assert ends["completed", True] > 20
