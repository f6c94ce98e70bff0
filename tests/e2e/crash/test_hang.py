"""Functions that hang while people write, and what systemd's watchdog does to them; systemd itself is a stand-in."""

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.proving.child import children_of, until
from emulator.proving.host import Post
from emulator.proving.platform import Platform, lines
from tests.e2e.crash import invariants
from tests.e2e.crash.conftest import Make
from tests.infra.service_manager import NotifySocket, as_main_process
from tests.liveness import freeze

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.crash]

CHATS = [str(chat) for chat in range(100, 120)]
AGENTS = {"alone": 1, "pair": 2, "many": 8}
VICTIMS = ["dispatch", "dispatch", "deliver", "ingest", "sweep"]
LIMIT_S = 4.0  # the units have more; a sign comes every second


class ServiceManager:
    """Ends a process that gives no more signs, and all that it started, as a unit with ``WatchdogSec=`` does."""

    def __init__(self, post: Post, folder: Path) -> None:
        self.killed: list[str] = []
        self._post = post
        self._notify = NotifySocket(folder / "notify", LIMIT_S)
        self._given_s: dict[int, float] = {}
        self._is_over = threading.Event()
        for name in set(VICTIMS):
            post[name].argv = [str(word) for word in as_main_process(post[name].argv)]
            post[name].environment |= self._notify.environment

    def watch(self) -> None:
        """Until :meth:`end`."""
        while not self._is_over.is_set():
            with contextlib.suppress(TimeoutError):
                pid, text = self._notify.receive(limit_s=0.1)
                if text == self._notify.sign:
                    self._given_s[pid] = time.monotonic()
            for name in set(VICTIMS):
                pid = self._post[name].pid
                if pid in self._given_s and time.monotonic() - self._given_s[pid] > LIMIT_S:
                    del self._given_s[pid]
                    self.killed.append(name)
                    _abort([pid, *_started_by(pid)])

        self._notify.close()

    def is_watched(self, name: str) -> bool:
        """Whether the process of now has given a sign: before its first one, a start may take long."""
        return self._post[name].pid in self._given_s

    def end(self) -> None:
        self._is_over.set()


def _started_by(pid: int) -> list[int]:
    return [each for child in children_of(pid) for each in (child, *_started_by(child))]


def _abort(pids: list[int]) -> None:
    """Both signals to all of them: what is stopped takes the first one when it goes on."""
    for number in (signal.SIGABRT, signal.SIGCONT):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


@contextlib.contextmanager
def managed(post: Post, folder: Path) -> Iterator[ServiceManager]:
    manager = ServiceManager(post, folder)
    post.start()
    watching = threading.Thread(target=manager.watch)
    watching.start()
    try:
        yield manager
    finally:
        manager.end()
        watching.join()


def test_the_end_of_a_function_that_hangs_costs_what_a_kill_costs(
    make_post: Make, platform: Platform, dice: random.Random, scale: float, tmp_path: Path
) -> None:
    """Nothing accepted is lost, and nothing runs or arrives twice without a record."""
    post = make_post(replica="s3")
    post.prepare(AGENTS, {chat: dice.choice(list(AGENTS)) for chat in CHATS})
    victims = dice.sample(VICTIMS * round(scale), len(VICTIMS) * round(scale))
    seconds = (LIMIT_S + 2) * len(victims)
    each = int(seconds)
    texts = lines(CHATS, each, lambda dice: f"ok:{dice.expovariate(dice.choice([4, 60, 60, 60])):.3f}", dice)

    with managed(post, tmp_path) as manager:
        with platform.people(post.port("ingest"), texts, pace_s=seconds / each / len(CHATS) * 6) as crowd:
            for victim in victims:
                time.sleep(dice.expovariate(1))
                until(f"a sign of {victim}", lambda v=victim: manager.is_watched(v))
                before = manager.killed.count(victim)
                freeze(post[victim].pid)
                until(f"the watchdog to end {victim}", lambda v=victim, n=before: manager.killed.count(v) > n, LIMIT_S)
            until("every message to be accepted", lambda: crowd.is_done, 60 * scale)
        post.settle(120 * scale)

    invariants.check(post, all_completed=True)
    invariants.check_replica(post, tmp_path)
    print(f"messages {len(platform.written)}, hung {victims}, ended {manager.killed}")
    for name in set(VICTIMS):
        assert b"Fatal Python error: Aborted" in post[name].log.read_bytes(), "its log says where it stood"
