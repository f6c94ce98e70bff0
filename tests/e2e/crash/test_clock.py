"""Clocks that jump while turns run and leases live."""

import random
import time

import pytest

from emulator.proving.child import until
from emulator.proving.platform import BUSY, LOST, OK, SLOW, Platform, lines
from tests.e2e.crash import invariants
from tests.e2e.crash.conftest import Make
from tests.e2e.crash.jumping import jump

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.crash]

HOUR_MS = 3_600_000
STEPS_MS = (HOUR_MS, -HOUR_MS, HOUR_MS, -HOUR_MS, 7_000, -7_000, 300_000, -300_000)
FARTHEST_MS = 3 * HOUR_MS
SECONDS = 16


def test_a_clock_that_jumps_by_hours_loses_doubles_and_reorders_nothing(
    make_post: Make, platform: Platform, dice: random.Random, scale: float, tmp_path
) -> None:
    moods = [SLOW, BUSY, LOST]
    platform.plan = lambda text, attempt: (
        (moods[len(text + text[-1]) % 3], 0.2) if attempt == 1 and text.endswith("7") else (OK, 0.0)
    )
    clock = tmp_path / "clock"
    jump(clock, 0)
    post = make_post(runner=["tests.e2e.crash.jumping", clock])
    chats = [str(chat) for chat in range(100, 118)]
    agents = {"alone": 1, "many": 8}
    post.prepare(agents, {chat: dice.choice(list(agents)) for chat in chats})
    post.start()
    seconds = SECONDS * scale
    each = int(seconds)
    plans = ["ok:0.02", "ok:0.02", "ok:1.5", "fail ok", "kill limit:300 ok:0.3"]
    texts = lines(chats, each, lambda dice: dice.choices(plans, [20, 20, 3, 3, 1])[0], dice)

    offset_ms, jumps = 0, 0
    with platform.people(post.port("ingest"), texts, pace_s=seconds / each / len(chats) * 6) as crowd:
        over = time.monotonic() + seconds
        while time.monotonic() < over or not crowd.is_done:
            assert time.monotonic() < over + 60 * scale, "ingest does not accept the messages"
            time.sleep(dice.uniform(0.1, 1.0))
            offset_ms = max(-FARTHEST_MS, min(FARTHEST_MS, offset_ms + dice.choice(STEPS_MS)))
            jump(clock, offset_ms)
            jumps += 1
            if dice.random() < 0.15:
                post.kill(dice.choice(["dispatch", "deliver", "ingest"]))
    # A failure on a late clock waits for an instant that is now far away, so the clock moves there.
    jump(clock, FARTHEST_MS + HOUR_MS)
    post.settle(60 * scale)

    invariants.check(post, all_completed=True)
    spread = post.query("SELECT max(created_at) - min(created_at) FROM messages")[0][0]
    assert spread > HOUR_MS, "the functions' clock did not jump"
    print(f"{jumps} jumps, {dict(post.query('SELECT type, count(*) FROM events GROUP BY type'))}")


def test_a_clock_set_back_by_an_hour_delays_no_due_message(make_post: Make, platform: Platform, tmp_path) -> None:
    """Without a failure nothing waits: leases, sends and next messages do not depend on the clock."""
    clock = tmp_path / "clock"
    jump(clock, HOUR_MS)
    post = make_post(runner=["tests.e2e.crash.jumping", clock])
    post.prepare({"many": 8}, {"100": "many", "101": "many"})
    post.start()
    port = post.port("ingest")
    platform.deliver(platform.write("100", "c100 0000 | ok:2"), port)
    platform.deliver(platform.write("101", "c101 0000 | ok"), port)
    until("the turns to run", lambda: len(invariants.journal(post)) >= 2)

    jump(clock, 0)
    platform.deliver(platform.write("101", "c101 0001 | ok"), port)
    platform.deliver(platform.write("100", "c100 0001 | ok"), port)

    post.settle(15)
    invariants.check(post, all_completed=True)
