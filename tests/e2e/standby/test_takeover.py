"""The first host is killed under load, again and again: the standby goes on, and the ledger outside is complete.

``STANDBY_KILLS=20`` kills twenty hosts, ``STANDBY_MB=100`` gives the database a history; the figures of
docs/operations.md are from such a run.
"""

import json
import os
import random
import signal
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from emulator.proving.child import until
from emulator.proving.host import AWS
from emulator.proving.platform import lines
from shared.db.replica import lease_record
from shared.db.replica.object_store import open_store
from tests.e2e.child_logs import said
from tests.e2e.standby import ledger
from tests.e2e.standby.conftest import AGENTS, CHATS, MakeHost
from tests.e2e.standby.hosts import Host, PairPlatform

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.crash]

KILLS = int(os.environ.get("STANDBY_KILLS", "3"))
MEGABYTES = int(os.environ.get("STANDBY_MB", "5"))
PATIENCE_S = 30.0  # on a quiet machine it is 6; a busy one is no fault of ours


@dataclass(frozen=True, slots=True)
class Takeover:
    """Seconds from the kill to the end of the lease, to the first 2xx of the other host, and for its database."""

    lease_s: float
    answered_s: float
    ready_s: float


def kill(first: Host, second: Host, platform: PairPlatform, replica: str) -> Takeover:
    record = lease_record.read(open_store(replica, AWS))
    assert record is not None
    first.signal(signal.SIGKILL)
    killed_s, killed_at = time.monotonic(), time.time()
    port = second.ports["ingest"]
    until("a 2xx of the second host", lambda: [at for at, of in platform.accepted if of == port], PATIENCE_S)
    answered_s = next(at for at, of in platform.accepted if of == port)
    (took,) = said(second["standby"], "standby.took_over")
    left_s = (record.renewed_at + record.ttl_ms) / 1000 - killed_at
    return Takeover(left_s, answered_s - killed_s, took["seconds"])


def test_the_standby_goes_on_after_the_first_host_is_killed_and_the_ledger_is_complete(
    make_host: MakeHost, platform: PairPlatform, replica: str, tmp_path: Path
) -> None:
    dice = random.Random(13)
    first = make_host()
    first.prepare(AGENTS, {chat: dice.choice(list(AGENTS)) for chat in CHATS})
    first.fill(MEGABYTES)
    first.start()
    first.wait_active()
    takeovers = []
    texts = lines(CHATS, 100_000, lambda dice: f"ok:{dice.expovariate(20):.3f}", dice)

    with platform.people(0, texts, pace_s=0.2, at_once=6) as crowd:
        for _ in range(KILLS):
            second = make_host()
            second.start()
            second.wait_following()
            time.sleep(dice.uniform(1, 3))  # the instant of the kill, within a renewal
            takeovers.append(kill(first, second, platform, replica))
            first.lose_disk()
            second.wait_active()
            first = second
        time.sleep(1)
    assert crowd is not None
    until("all work to end", lambda: not first.open_work(), 60)

    ledger.check(first)
    accepted = sum(written.accepted for written in platform.written.values())
    figures = {
        "kills": len(takeovers),
        "accepted": accepted,
        "sends": len(platform.taken),
        "said_twice_with_a_recorded_doubt": ledger.said_twice(first),
        **{
            name: [round(f(values), 2) for f in (min, statistics.median, max)]
            for name, values in {
                "killed_to_answered_s": [each.answered_s for each in takeovers],
                "lease_end_to_answered_s": [each.answered_s - each.lease_s for each in takeovers],
                "database_ready_in_s": [each.ready_s for each in takeovers],
            }.items()
        },
    }
    print(json.dumps(figures))
    if found := os.environ.get("STANDBY_FIGURES"):
        Path(found).write_text(json.dumps({**figures, "each": [str(each) for each in takeovers]}, indent=1) + "\n")
    assert accepted > 20 * KILLS
