"""The supervisor's report, and what is made of it."""

import json
import os

import pytest

from shared.core.time import clock
from shared.db.engine.restore_proofs import RestoreProof
from shared.db.replica import replica_lag, replica_report
from shared.db.replica.replica_problems import is_overdue, overdue_sentence, problems
from shared.db.replica.replica_report import BucketSurvey, LevelFacts, ReplicaReport
from shared.db.replica.request_counts import RequestCounter, RequestCounts
from tests.support import NOW

HOUR = 3_600_000
SURVEY = BucketSurvey(
    NOW, [LevelFacts(0, 3, 300, "0" * 15 + "c", NOW - 1), LevelFacts(9, 1, 900, "0" * 15 + "a", NOW - HOUR)], 9, 4000, 1
)
REPORT = ReplicaReport(
    at=NOW, url="s3://bucket/db", prefix="epoch_2", epoch="epoch_1", has_full_copy=True, holder="host (p.db, owner_1)",
    renewed_at=NOW - 5000, until=NOW + 55_000, behind_since=None, verify_every_ms=24 * HOUR,
    requests=RequestCounts(puts=4, lists=1), counting_since=NOW - HOUR, survey=SURVEY, sizes={"2026-11-22": 3000},
)  # fmt: skip
PROOF = RestoreProof(NOW, "drill", "equal", "s3://bucket/db/epoch_2", "0" * 15 + "c", 40, 1000, 5000, 900, 2000)

DAMAGE = PROOF._replace(outcome="damaged", reason="files are missing")


def changed(**facts):
    return ReplicaReport(**{name: getattr(REPORT, name) for name in REPORT.__struct_fields__} | facts)


def test_a_report_is_read_as_it_was_written(db):
    REPORT.write(db)
    assert replica_report.read(db) == REPORT
    path = db.with_name(f"{db.name}-replica")
    assert path.stat().st_mode & 0o077 == 0
    assert (SURVEY.position, SURVEY.snapshot_at) == ("0" * 15 + "c", NOW - HOUR)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"at": 1}', "[" * 50_000], ids=["empty", "list", "cut", "part", "deep"]
)
def test_a_damaged_report_is_none(db, text):
    db.with_name(f"{db.name}-replica").write_text(text)
    assert replica_report.read(db) is None


def test_a_report_of_an_earlier_release_is_read(db):
    REPORT.write(db)
    path = db.with_name(f"{db.name}-replica")
    old = json.loads(path.read_text())
    del old["bucket_answers"], old["restarts"]
    path.write_text(json.dumps(old))
    assert replica_report.read(db) == REPORT


def test_a_report_and_what_waits_are_as_old_by_a_moved_clock_as_by_the_machine_s(db, day_ahead):
    """Litestream, its files and its supervisor have the machine's clock."""
    changed(behind_since=NOW - HOUR).write(db)
    found = replica_report.read(db)
    assert (found.at - day_ahead, found.until - found.at, found.at - found.behind_since) == (NOW, 55_000, HOUR)
    folder = db.with_name(f".{db.name}-litestream") / "ltx" / "0"
    folder.mkdir(parents=True)
    (folder / f"{2:016x}-{2:016x}.ltx").touch()
    assert replica_lag.waiting_s(db, 1, clock.now_ms() / 1000) < 60


def test_a_day_has_its_last_size_and_old_days_go():
    sizes = {}
    for day in range(1, 41):
        sizes = replica_report.add_size(sizes, f"2026-{10 + day // 31}-{1 + day % 31:02}", 100 * day)
    sizes = replica_report.add_size(sizes, "2026-11-10", 4001)
    assert (len(sizes), next(iter(sizes))) == (replica_report.DAYS_KEPT, "2026-10-07")
    assert sizes["2026-11-10"] == 4001


@pytest.mark.parametrize(
    ("sizes", "growth"),
    [
        ({}, None),
        ({"2026-11-22": 1}, None),
        ({"2026-10-31": 100, "2026-11-01": 150}, 50),
        ({"2026-11-22": 100, "2026-11-26": 60}, -10),  # the supervisor was away for three days
    ],
)
def test_growth_is_that_of_a_day(sizes, growth):
    assert replica_report.growth_per_day(sizes) == growth


def test_a_counter_adds_up():
    counter = RequestCounter()
    counter.add(RequestCounts(puts=1, sent_bytes=5))
    counter.add(RequestCounts(puts=1, lists=2))
    assert counter.counts == RequestCounts(puts=2, lists=2, sent_bytes=5)


def test_what_waits_is_as_old_as_its_oldest_commit(db):
    folder = db.with_name(f".{db.name}-litestream") / "ltx" / "0"
    assert replica_lag.waiting_s(db, 1, 100.0) is None
    folder.mkdir(parents=True)
    for position, at_s in ((1, 10), (2, 40), (3, 60)):
        (folder / f"{position:016x}-{position:016x}.ltx").touch()
        os.utime(folder / f"{position:016x}-{position:016x}.ltx", (at_s, at_s))
    assert replica_lag.waiting_s(db, 1, 100.0) == 60
    assert replica_lag.waiting_s(db, 3, 100.0) is None


def test_a_replica_that_is_well_has_no_problems():
    assert problems(REPORT, PROOF, 0.0, now_ms=NOW) == []
    assert problems(REPORT, None, 29.0, now_ms=NOW + 50_000) == []


@pytest.mark.parametrize(
    ("report", "proof", "behind_s", "said"),
    [
        (None, None, None, "has reported nothing yet: does infra.replicate run?"),
        (changed(at=NOW - 91_000), PROOF, 0.0, "has reported nothing for 91 s: does infra.replicate run? Start it"),
        (changed(until=NOW - 4000), PROOF, 0.0, "the lease on the replica ran out 4 s ago: look at the log"),
        (changed(has_full_copy=False), PROOF, 0.0, "no full copy yet"),
        (REPORT, PROOF, 31.0, "not reached the bucket for 31 s: the bucket does not work, or Litestream hangs: look"),
        (changed(bucket_answers=True), PROOF, 31.0, "Litestream is slow, or hangs and is restarted soon. Wait, else"),
        (changed(bucket_answers=False), PROOF, 9.0, "for 9 s: the bucket does not answer infra.replicate either. Fix"),
        (
            changed(bucket_answers=True, restarts=1),
            PROOF,
            9.0,
            "for 9 s: the bucket answers; Litestream hung, and infra.replicate restarted it once. Wait, else look",
        ),
        (changed(bucket_answers=True, restarts=2), PROOF, 31.0, "infra.replicate restarted it 2 times"),
        (changed(behind_since=NOW - 45_000), PROOF, None, "commits have not reached the bucket for 45 s"),
        (REPORT, DAMAGE, 0.0, "(files are missing): restore nothing"),
    ],
)  # fmt: skip
def test_each_problem_is_one_sentence_with_the_next_step(report, proof, behind_s, said):
    (found,) = problems(report, proof, behind_s, now_ms=NOW)
    assert said in found


@pytest.mark.parametrize(
    ("proven_h", "period_h", "began_h", "expected"),
    [(48, 24, 900, False), (49, 24, 900, True), (49, 0, 900, False), (None, 24, 48, False), (None, 24, 49, True)],
)
def test_a_proof_is_overdue_after_twice_the_period(proven_h, period_h, began_h, expected):
    proven = None if proven_h is None else PROOF._replace(made_at=NOW - proven_h * HOUR)
    assert is_overdue(proven, period_h * HOUR, began_at=NOW - began_h * HOUR, now_ms=NOW) is expected
    assert "python -m infra.verify" in overdue_sentence(proven, 24 * HOUR, now_ms=NOW)
