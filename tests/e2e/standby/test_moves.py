"""A planned move, the return of the old host as standby, and an old host that was frozen and goes on."""

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator

import pytest

from emulator.proving.child import Child, until
from emulator.proving.platform import lines
from tests.e2e.child_logs import said
from tests.e2e.standby import ledger
from tests.e2e.standby.conftest import CHATS, MakeHost
from tests.e2e.standby.hosts import FUNCTIONS, Host, PairPlatform

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.crash]


def accepted_by(host: Host, platform: PairPlatform) -> int:
    return sum(port == host.ports["ingest"] for _, port in platform.accepted)


@contextlib.contextmanager
def standing_still(child: Child) -> Iterator[None]:
    """Let it stand still during the block."""
    pid = child.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def begin_pair(make_host: MakeHost, megabytes: int = 0, **environment: str) -> tuple[Host, Host]:
    """Two hosts, the first of which works."""
    first = make_host(**environment)
    first.prepare({"many": 8}, dict.fromkeys(CHATS, "many"))
    first.fill(megabytes)
    first.start()
    first.wait_active()
    second = make_host(**environment)
    second.start()
    second.wait_following()
    return first, second


def test_a_planned_move_and_back_loses_nothing_and_the_old_host_returns_as_the_standby(
    make_host: MakeHost, platform: PairPlatform
) -> None:
    first, second = begin_pair(make_host, int(os.environ.get("STANDBY_MB", "0")))
    texts = lines(CHATS, 100_000, lambda _: "ok", random.Random(1))

    with platform.people(0, texts, pace_s=0.2):
        until("messages", lambda: accepted_by(first, platform) > 10)
        until("a standby that is well, under load", lambda: second.status()[0] == 200)  # a listing every 5 s
        assert second.status()[1]["part"] == "standby"
        stopped_s = time.monotonic()
        first.stop()
        freed_s = time.monotonic()
        assert said(first["standby"], "standby.active")
        until("the second host to answer", lambda: accepted_by(second, platform) > 10)
        answered_s = next(at for at, port in platform.accepted if port == second.ports["ingest"])
        print(f"stop {freed_s - stopped_s:.1f} s, stop to the first 2xx {answered_s - stopped_s:.1f} s")
        second.wait_active()
        assert second.status()[1]["part"] == "active"

        again = Host.returned(first)  # the same folder: its file is of the history before
        platform.ports.append(again.ports["ingest"])
        again.start()
        again.wait_following()
        assert list(again.folder.glob("postroom.db.left-1"))
        second.stop()
        until("the first host to answer again", lambda: accepted_by(again, platform) > 10)
        again.wait_active()
    until("all work to end", lambda: not again.open_work(), 60)

    ledger.check(again)
    assert ledger.said_twice(again) == 0, "a planned move leaves no send without an outcome"
    again.close()


def test_a_host_that_was_only_late_goes_on_and_the_standby_takes_its_head_start_back(
    make_host: MakeHost, platform: PairPlatform
) -> None:
    first, second = begin_pair(make_host, POSTROOM_REPLICA_LEASE="10s")
    with standing_still(first["standby"]):
        until("a head start", lambda: said(second["standby"], "standby.head_start"))
    until("its end", lambda: said(second["standby"], "standby.head_start_ended"))
    until("the clone to be gone", lambda: not second.db.exists())
    assert not said(first["standby"], "replicate.fenced")
    assert platform.deliver(platform.write("100", "c100 0000 | ok"), 0)[0] == 200
    assert accepted_by(first, platform) == 1

    first.stop()
    platform.deliver(platform.write("100", "c100 0001 | ok"), 0)
    second.wait_active()
    until("the second host to answer", lambda: platform.deliver(platform.written["c100 0001 | ok"], 0)[0] == 200)
    until("all work to end", lambda: not second.open_work(), 60)

    ledger.check(second)


def test_an_old_host_that_was_frozen_acknowledges_and_sends_nothing_when_it_goes_on(
    make_host: MakeHost, platform: PairPlatform
) -> None:
    first, second = begin_pair(make_host)
    texts = lines(CHATS, 100_000, lambda _: "ok:0.05", random.Random(1))

    with platform.people(0, texts, pace_s=0.1):
        until("messages", lambda: accepted_by(first, platform) > 20)
        frozen = first.pids()
        first.signal(signal.SIGSTOP)
        until("the second host to answer", lambda: accepted_by(second, platform) > 10, 60)
        before = accepted_by(first, platform)
        platform.ports.reverse()  # people ask the old host first
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
        until("the old host to be fenced", lambda: said(first["standby"], "replicate.fenced"))
        for name in FUNCTIONS:  # as systemd's BindsTo= does, and ECS
            first[name].stop()
        until("more messages", lambda: accepted_by(second, platform) > 30)
    assert first["standby"].stop() == 73
    until("all work to end", lambda: not second.open_work(), 60)

    assert accepted_by(first, platform) == before, "it acknowledged something after the other had taken over"
    ledger.check(second)
