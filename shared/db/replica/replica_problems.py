"""What is not well with the replica, from what the supervisor reported and what was proven; each with the next step."""

from shared.db.engine.restore_proofs import RestoreProof
from shared.db.replica.replica_report import ReplicaReport

_REPORT_OVERDUE_MS = 90_000  # it is due every ten seconds
_BEHIND_S = 30.0
_PERIODS = 2  # of the scheduled comparison, after which a proof is overdue
_LOOK = "look at the log of infra.replicate (infra/README.md says what each line means)"


def is_overdue(proven: RestoreProof | None, verify_every_ms: int, *, began_at: int, now_ms: int) -> bool:
    """Whether the last proven restore is older than it should be.

    Args:
        verify_every_ms: how often a restore is compared; 0: never by itself, and nothing is overdue.
        began_at: of the database; before that nothing could be proven.
    """
    since = proven.made_at if proven else began_at
    return 0 < verify_every_ms * _PERIODS < now_ms - since


def overdue_sentence(proven: RestoreProof | None, verify_every_ms: int, *, now_ms: int) -> str:
    """What to say of an overdue proof."""
    what = "no restore of the replica was ever proven"
    if proven is not None:
        what = f"the last proven restore is {(now_ms - proven.made_at) // 3_600_000} h old"
    return (
        f"{what}, and one is due every {verify_every_ms / 3_600_000:g} h: run `python -m infra.verify` beside "
        f"infra.replicate, which says why it can't compare"
    )


def problems(
    report: ReplicaReport | None, newest: RestoreProof | None, behind_s: float | None, *, now_ms: int
) -> list[str]:
    """A sentence for each thing that is not well.

    Args:
        newest: the newest comparison, whatever it found.
        behind_s: how long commits wait for the bucket now.
    """
    if report is None:
        return [f"the supervisor of replication has reported nothing yet: does infra.replicate run? If so, {_LOOK}"]
    found = []
    age_ms = now_ms - report.at
    if age_ms > _REPORT_OVERDUE_MS:
        found.append(
            f"the supervisor of replication has reported nothing for {age_ms // 1000} s: does infra.replicate run? "
            f"Start it; until then, commits are on this disk only"
        )
    elif report.until < now_ms:
        found.append(f"the lease on the replica ran out {(now_ms - report.until) // 1000} s ago: {_LOOK}")
    elif not report.has_full_copy:
        found.append(f"the present prefix has no full copy yet, and a restore finds the one before: wait, else {_LOOK}")
    waiting_s = max(behind_s or 0.0, (now_ms - report.behind_since) / 1000 if report.behind_since else 0.0)
    if waiting_s > _BEHIND_S or (waiting_s and (report.restarts or report.bucket_answers is False)):
        found.append(f"commits have not reached the bucket for {waiting_s:.0f} s: {_why_behind(report)}")
    if newest is not None and not newest.is_proof:
        found.append(
            f"the newest comparison found that a restore is not the database ({newest.reason}): restore nothing, leave "
            f"the database running, and see infra/README.md, *When they differ*"
        )
    return found


def _why_behind(report: ReplicaReport) -> str:
    """Whether the bucket or Litestream is the reason, as far as the supervisor knows; and what to do."""
    if report.bucket_answers is False:
        return f"the bucket does not answer infra.replicate either. Fix the bucket, or the network to it; else {_LOOK}"
    if report.restarts:
        times = "once" if report.restarts == 1 else f"{report.restarts} times"
        return f"the bucket answers; Litestream hung, and infra.replicate restarted it {times}. Wait, else {_LOOK}"
    if report.bucket_answers:
        return (
            f"the bucket answers infra.replicate, so Litestream is slow, or hangs and is restarted soon. Wait, "
            f"else {_LOOK}"
        )
    return f"the bucket does not work, or Litestream hangs: {_LOOK}"
