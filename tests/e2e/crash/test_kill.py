"""kill -9 at random instants, of each function, Litestream, S3, or all at once, while people write."""

import random
import time
from pathlib import Path

import pytest

from emulator.proving.child import until
from emulator.proving.host import WRITER
from emulator.proving.platform import BROKEN, LOST, OK, SLOW, TAKEN_BROKEN, TAKEN_LOST, Platform, lines
from tests.e2e.child_logs import said
from tests.e2e.crash import invariants
from tests.e2e.crash.conftest import Make
from tests.liveness import is_alive

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.crash]

CHATS = [str(chat) for chat in range(100, 130)]
AGENTS = {"alone": 1, "pair": 2, "many": 8}
VICTIMS = (
    *("ingest", WRITER, "dispatch", "dispatch", "deliver", "deliver"),
    *("sweep", "recurrence", "ticker", "litestream", "s3"),
)
SECONDS = 30


def test_nothing_accepted_is_lost_and_nothing_runs_or_arrives_twice_without_a_record(
    make_post: Make, platform: Platform, dice: random.Random, scale: float, tmp_path: Path
) -> None:
    moods = {
        f"re c{chat} {number:04}": dice.choice([SLOW, BROKEN, TAKEN_BROKEN, LOST, TAKEN_LOST])
        for chat in CHATS
        for number in range(dice.randrange(20), 10_000, 20)
    }
    platform.plan = lambda text, attempt: (moods.get(text, OK), 0.2) if attempt == 1 else (OK, 0.005)
    post = make_post(replica="s3")
    post.prepare(AGENTS, {chat: dice.choices(list(AGENTS), [1, 2, 6])[0] for chat in CHATS})
    post.start()
    seconds = SECONDS * scale
    each = int(1.2 * seconds)
    texts = lines(CHATS, each, lambda dice: f"ok:{dice.expovariate(dice.choice([4, 60, 60, 60, 60, 60])):.3f}", dice)

    with platform.people(post.port("ingest"), texts, pace_s=seconds / each / len(CHATS) * 6) as crowd:
        over = time.monotonic() + seconds
        while time.monotonic() < over:
            time.sleep(dice.expovariate(1.6))
            if dice.random() < 0.06:
                post.kill_everything()
            else:
                post.kill(dice.choice(VICTIMS))
        until("every message to be accepted", lambda: crowd.is_done, 60 * scale)
    post.settle(120 * scale)

    invariants.check(post, all_completed=True)
    invariants.check_replica(post, tmp_path)
    kinds = dict(post.query("SELECT type, count(*) FROM events GROUP BY type"))
    starts = {name: child.starts for name, child in post.children.items()}
    print(f"messages {len(platform.written)}, starts {starts}, {kinds}")
    assert kinds.get("message_retry", 0) > 0, "no kill has hit a turn"


def test_what_ingest_acknowledged_survives_its_kill_at_any_instant(
    make_post: Make, platform: Platform, dice: random.Random, scale: float
) -> None:
    """24 webhooks at once, so that every kill hits some between arrival, commit and answer."""
    post = make_post(functions=["ingest"])
    chats = CHATS[:24]
    post.prepare({"many": 8}, dict.fromkeys(chats, "many"))
    post.start()
    kills = int(10 * scale)

    with platform.people(post.port("ingest"), lines(chats, 2000, lambda _: "ok", dice), at_once=24):
        for _ in range(kills):
            seen = len(platform.written)
            until("some messages to be accepted", lambda seen=seen: len(platform.written) > seen + 50)
            time.sleep(dice.uniform(0, 0.05))
            post.kill("ingest")

    unanswered = sum(0 in written.statuses for written in platform.written.values())
    print(f"{len(platform.written)} written, {unanswered} found ingest dead")
    assert unanswered > kills
    invariants.check_stored(post)


def test_the_kill_of_the_process_in_which_ingest_stores_costs_no_webhook(
    make_post: Make, platform: Platform, dice: random.Random, scale: float
) -> None:
    """24 webhooks at once, as above. ingest is killed after each round, with whatever stores for it then."""
    post = make_post(functions=["ingest"])
    chats = CHATS[:24]
    post.prepare({"many": 8}, dict.fromkeys(chats, "many"))
    post.start()
    kills, each = int(6 * scale), 40
    texts = lines(chats, kills * each, lambda _: "ok", dice)

    for number in range(kills):
        until("ingest to listen", lambda n=number: len(said(post["ingest"], "function.listening")) == n + 1)
        (writer,) = post["ingest"].forks()
        seen = len(platform.written)
        now = {chat: texts[chat][number * each : (number + 1) * each] for chat in chats}
        with platform.people(post.port("ingest"), now, at_once=24) as crowd:
            until("some messages to be written", lambda seen=seen: len(platform.written) > seen + 50)
            time.sleep(dice.uniform(0, 0.05))
            if number % 3 < 2:
                post.kill(WRITER)
            until("every message to be accepted", lambda: crowd.is_done, 60)
        post.kill("ingest")
        until("the writer to end with ingest, or before", lambda writer=writer: not is_alive(writer))

    assert {status for written in platform.written.values() for status in written.statuses} == {200}
    assert len(platform.written) == kills * each * len(chats)
    assert len(said(post["ingest"], "writer_process.ended")) == sum(number % 3 < 2 for number in range(kills))
    invariants.check_stored(post)
