"""The replica: where it is, how far behind, what it holds, and what was proven of it."""

import msgspec

from shared.core.errors import NotReplicated
from shared.db.engine import meta, restore_proofs
from shared.db.engine.named_rows import view_of
from shared.db.engine.restore_proofs import RestoreProof
from shared.db.replica import replica_lag, replica_problems, replica_report
from shared.db.replica.replica_report import ReplicaReport
from shared.db.replica.sync import read_positions
from shared.rest.http.endpoint import endpoint
from shared.rest.http.service import Service
from shared.rest.resources.replication.views import (
    BucketRequests,
    ReplicaLease,
    ReplicaStorage,
    ReplicaSummary,
    ReplicaView,
    RestoreProofView,
    view_storage,
)

_ASK_LIMIT_S = 2.0


@endpoint("GET", "/api/replica")
async def get_replica(service: Service) -> ReplicaView:
    """Read the state of the replica. It asks Litestream, so it may take two seconds while that has a problem."""
    now_ms = service.now_ms()
    report = replica_report.read(service.settings.db)
    proven, newest = restore_proofs.last_proven(service.reader), restore_proofs.newest(service.reader)
    lag = await _ask_litestream(service, now_ms)
    found = replica_problems.problems(report, newest, lag.behind_s, now_ms=now_ms)
    found += [lag.problem] if lag.problem else []
    found += overdue(service, now_ms)
    return {
        "ok": not found,
        "problems": found,
        "reportedAt": report.at if report else None,
        "url": report.url if report else None,
        "prefix": report.prefix if report else None,
        "epoch": report.epoch if report else meta.get(service.reader, "epoch"),
        "position": lag.position,
        "replicatedPosition": lag.replicated,
        "behindSeconds": lag.behind_s,
        "lease": _lease(report) if report else None,
        "storage": _storage(report) if report else None,
        "provenRestore": _proof(proven, now_ms),
        "newestRestore": _proof(newest, now_ms),
        "requests": _requests(report) if report else None,
    }


def summary(service: Service, now_ms: int) -> ReplicaSummary | None:
    """What ``/api/status`` says of the replica; None where nothing replicates, and nothing was ever proven."""
    report = replica_report.read(service.settings.db)
    proven = restore_proofs.last_proven(service.reader)
    if report is None and proven is None:
        return None
    return {
        "provenRestore": _proof(proven, now_ms),
        "overdue": bool(overdue(service, now_ms)),
        "bytes": report.survey.bytes if report and report.survey else None,
    }


def overdue(service: Service, now_ms: int) -> list[str]:
    """The sentence about a proof that is overdue, if it is."""
    report = replica_report.read(service.settings.db)
    proven = restore_proofs.last_proven(service.reader)
    began_at = meta.began_at(service.reader)
    if report is None or not replica_problems.is_overdue(
        proven, report.verify_every_ms, began_at=began_at, now_ms=now_ms
    ):
        return []
    return [replica_problems.overdue_sentence(proven, report.verify_every_ms, now_ms=now_ms)]


class _Lag(msgspec.Struct, frozen=True):
    """What Litestream says of its positions."""

    position: str | None = None
    replicated: str | None = None
    behind_s: float | None = None
    problem: str | None = None


async def _ask_litestream(service: Service, now_ms: int) -> _Lag:
    socket, database = service.settings.litestream_socket, service.settings.db.absolute()
    if socket is None:
        return _Lag()
    try:
        here, there = await read_positions(socket, database, _ASK_LIMIT_S)
    except NotReplicated as error:
        return _Lag(problem=f"replication can't be asked: {error}")
    behind_s = 0.0 if there >= here else replica_lag.waiting_s(database, there, now_ms / 1000)
    return _Lag(f"{here:016x}", f"{there:016x}", behind_s)


def _lease(report: ReplicaReport) -> ReplicaLease:
    return view_of(ReplicaLease, report)


def _storage(report: ReplicaReport) -> ReplicaStorage | None:
    return view_storage(report.survey, replica_report.growth_per_day(report.sizes)) if report.survey else None


def _proof(proof: RestoreProof | None, now_ms: int) -> RestoreProofView | None:
    if proof is None:
        return None
    return view_of(RestoreProofView, proof, at=proof.made_at, age=(now_ms - proof.made_at) // 1000, by=proof.made_by)


def _requests(report: ReplicaReport) -> BucketRequests:
    return view_of(BucketRequests, report.requests, since=report.counting_since)


ENDPOINTS = (get_replica,)
