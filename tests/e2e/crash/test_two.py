"""Two of each function on the same file: one works, the other waits and takes over when the first is gone."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from emulator.proving.child import ROOT, until
from emulator.proving.host import FUNCTIONS
from emulator.proving.platform import Platform, lines
from tests.e2e.child_logs import said
from tests.e2e.conftest import System
from tests.e2e.crash import invariants
from tests.e2e.crash.conftest import Make
from tests.e2e.test_first_light import say, sent

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.crash]

SECONDS = 14
TAKEOVER_S = 30.0  # on a quiet machine it is half a second


def test_of_two_dispatches_and_two_delivers_one_works_and_the_other_takes_over(
    make_post: Make, platform: Platform, dice: random.Random, scale: float
) -> None:
    post = make_post(functions=[*FUNCTIONS, "ingest-2", "dispatch-2", "deliver-2", "sweep-2"])
    chats = [str(chat) for chat in range(100, 120)]
    agents = {"alone": 1, "pair": 2, "many": 8}
    post.prepare(agents, {chat: dice.choice(list(agents)) for chat in chats})
    post.start()
    seconds = SECONDS * scale
    each = int(seconds)
    texts = lines(chats, each, lambda dice: f"ok:{dice.expovariate(dice.choice([2, 20, 20, 20])):.3f}", dice)
    ports = {name: post.port(name) for name in ("ingest", "ingest-2")}
    half = len(chats) // 2
    first = {chat: texts[chat] for chat in chats[:half]}
    second = {chat: texts[chat] for chat in chats[half:]}

    pace_s = seconds / each / len(chats) * 10
    with (
        platform.people(ports["ingest"], first, pace_s=pace_s) as one,
        platform.people(ports["ingest-2"], second, pace_s=pace_s) as other,
    ):
        over = time.monotonic() + seconds
        while time.monotonic() < over:
            time.sleep(dice.uniform(0.3, 1.2))
            post.kill(dice.choice(["dispatch", "deliver", "dispatch", "deliver", "ingest"]) + dice.choice(["", "-2"]))
        until("every message to be accepted", lambda: one.is_done and other.is_done, 60 * scale)
    post.settle(60 * scale)

    invariants.check(post, all_completed=True)
    waited = [name for name in ("dispatch", "dispatch-2", "deliver", "deliver-2") if said(post[name], "worker.waiting")]
    print(f"waited: {waited}; starts { ({name: child.starts for name, child in post.children.items()}) }")
    assert any(name.startswith("dispatch") for name in waited)
    assert any(name.startswith("deliver") for name in waited)


def test_the_waiting_dispatch_takes_over_soon_after_the_other_is_killed(make_post: Make, platform: Platform) -> None:
    post = make_post(functions=["ingest", "dispatch", "deliver", "dispatch-2"])
    post.prepare({"many": 8}, {"100": "many", "101": "many"})
    post.start()
    until("one to wait", lambda: said(post["dispatch"], "worker.waiting") or said(post["dispatch-2"], "worker.waiting"))
    waits = next(name for name in ("dispatch", "dispatch-2") if said(post[name], "worker.waiting"))
    works = {"dispatch": "dispatch-2", "dispatch-2": "dispatch"}[waits]
    platform.deliver(platform.write("100", "c100 0000 | ok:30 ok"), post.port("ingest"))
    until("the turn to run", lambda: invariants.journal(post))

    post[works].stop(signal.SIGKILL)
    killed = time.monotonic()
    until("the turn to run again", lambda: len(invariants.journal(post)) > 1)

    assert time.monotonic() - killed < TAKEOVER_S
    post.settle()
    invariants.check(post, all_completed=True)


def test_a_kick_wakes_the_dispatch_that_works_and_not_the_one_that_waits(make_post: Make, platform: Platform) -> None:
    post = make_post(functions=["ingest", "dispatch", "dispatch-2"], ticks=False)
    post.prepare({"many": 8}, {"100": "many"})
    post.start()
    until("one to wait", lambda: said(post["dispatch"], "worker.waiting") or said(post["dispatch-2"], "worker.waiting"))
    waits = next(name for name in ("dispatch", "dispatch-2") if said(post[name], "worker.waiting"))
    post[waits].kill()
    until("it to wait again", lambda: len(said(post[waits], "worker.waiting")) == 2)

    platform.deliver(platform.write("100", "c100 0000 | ok"), post.port("ingest"))

    until("the turn", lambda: invariants.journal(post))


def test_a_second_emulator_on_the_same_folder_is_refused_and_touches_nothing(system: System) -> None:
    say(system, "!slow 3 still here")
    until("the turn to run", lambda: system.query("SELECT 1 FROM messages WHERE status = 'processing'"))
    pids = system.pids()
    instance = (system.state / "instance.json").read_bytes()
    argv = [sys.executable, "-m", "emulator", "run", "--state", system.state, "--port", "0", "--log", "json"]

    for _ in range(2):
        second = subprocess.run(argv, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=180)
        assert second.returncode not in (0, None)
        assert "in use" in second.stdout + second.stderr

    assert (system.state / "instance.json").read_bytes() == instance
    assert system.pids() == pids
    until("the answer", lambda: sent(system, "still here"))
    assert len(sent(system, "still here")) == 1
    struck = dict(system.query("SELECT type, count(*) FROM events GROUP BY type"))
    assert struck["chain_step_start"] == 1, "the first emulator lost its turn"
    assert not struck.keys() & {"message_retry", "message_released", "response_outcome_unknown"}
    assert system.query("PRAGMA integrity_check") == [("ok",)]
