"""``emulator replica status`` of a Postroom elsewhere."""

import pytest

from emulator.cli.commands.replica.status import describe, size
from shared.core.time import clock
from shared.db.engine import restore_proofs
from shared.db.engine.connection import transaction
from tests.emulator.cli.commands.conftest import Postroom
from tests.shared.db.replica.test_replica_report import HOUR, PROOF, changed


def test_where_nothing_replicates_it_says_what_to_start(postroom: Postroom) -> None:
    assert "replicates nothing" in postroom.refused("replica", "status", code=69)


def test_a_replica_that_is_well_and_one_that_is_not(postroom: Postroom) -> None:
    now_ms = clock.now_ms()
    with transaction(postroom.conn):
        restore_proofs.add(postroom.conn, PROOF._replace(made_at=now_ms - 3 * HOUR))
    changed(at=now_ms, until=now_ms + 50_000).write(postroom.db)
    shown = postroom.run("replica", "status").stdout
    assert shown.startswith("The replica is healthy\n")
    assert "s3://bucket/db, prefix epoch_2, epoch epoch_1" in shown
    assert "3 h ago" in shown
    assert "by a drill: position 000000000000000c restored in 0.9 s, 1000 rows in 40 tables compared" in shown
    assert "4 PUT, 0 GET, 1 LIST, 0 DELETE since " in shown
    assert postroom.json("replica", "status")["storage"]["bytes"] == 4000

    changed(at=now_ms - 600_000, until=now_ms - 540_000).write(postroom.db)
    shown = postroom.run("replica", "status", code=1).stdout
    assert "problem: the supervisor of replication has reported nothing for 6" in shown  # 600 s and more


def test_the_command_of_the_bucket_s_own_position_is_shown_beside_litestreams() -> None:
    facts = {
        "ok": True, "problems": [], "url": "s3://b", "prefix": "", "epoch": None, "position": "b", "lease": None,
        "replicatedPosition": "a", "behindSeconds": 1.25, "newestInBucket": "a", "storage": None, "provenRestore": None,
        "requests": None,
    }  # fmt: skip
    told = str(describe(facts).parts[1])
    assert "position b here, a in the bucket, for 1.2 s; newest in the bucket a" in told
    assert "to prove one: emulator replica drill --no-kill" in told


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (123_456, "123 kB"), (-2_000_000, "-2.0 MB"), (5e12, "5.0 TB")],
)
def test_bytes_for_a_person(count: float, shown: str) -> None:
    assert size(count) == shown
