"""The shapes of what the API says about the replica."""

from typing_extensions import TypedDict

from shared.db.engine.named_rows import view_of
from shared.db.engine.restore_proofs import MadeBy, ProofOutcome
from shared.db.replica.replica_report import BucketSurvey


class ReplicaLease(TypedDict):
    """The right to replicate. *until*: then another machine may take it, unless it is renewed; ms UTC."""

    holder: str
    renewedAt: int
    until: int


class ReplicaLevel(TypedDict):
    """The files of one of Litestream's levels; level 9 holds whole copies. *position*, *writtenAt*: of the newest."""

    level: int
    files: int
    bytes: int
    position: str
    writtenAt: int


class RestoreProofView(TypedDict):
    """A restore from the bucket that was compared with the database. *age*: in seconds. *lostRows*: it lacks them.

    *by*: the scheduled *comparison*, a *drill*, or one that killed the writer. *reason*: for people; null if equal.
    """

    at: int
    age: int
    by: MadeBy
    outcome: ProofOutcome
    replica: str
    position: str
    tables: int
    rows: int
    bytes: int
    restoreMs: int | None
    totalMs: int
    lostRows: int
    reason: str | None


class BucketRequests(TypedDict):
    """The requests of our own client since the supervisor started at *since*; Litestream's are in its own metrics."""

    since: int
    puts: int
    gets: int
    lists: int
    deletes: int
    sentBytes: int
    receivedBytes: int


class ReplicaStorage(TypedDict):
    """What lies in the bucket, at the survey of *surveyedAt*; *growthPerDay*: in bytes, null in the first days."""

    surveyedAt: int
    files: int
    bytes: int
    oldPrefixes: int
    levels: list[ReplicaLevel]
    lastSnapshot: int | None
    growthPerDay: float | None


class ReplicaView(TypedDict):
    """*problems*: one sentence for each, with the next step.

    *position*: of the database here, *replicatedPosition*: of the bucket, as Litestream says; null if it is not asked.
    *behindSeconds*: how long the oldest commit waits that is not in the bucket.
    """

    ok: bool
    problems: list[str]
    reportedAt: int | None
    url: str | None
    prefix: str | None
    epoch: str | None
    position: str | None
    replicatedPosition: str | None
    behindSeconds: float | None
    lease: ReplicaLease | None
    storage: ReplicaStorage | None
    provenRestore: RestoreProofView | None
    newestRestore: RestoreProofView | None
    requests: BucketRequests | None


class ReplicaSummary(TypedDict):
    """*provenRestore*: the last one that was compared with the database; *overdue*: it was too long ago."""

    provenRestore: RestoreProofView | None
    overdue: bool
    bytes: int | None


def view_storage(survey: BucketSurvey, growth_per_day: float | None) -> ReplicaStorage:
    """What a survey of the bucket found."""
    levels = [view_of(ReplicaLevel, each) for each in survey.levels]
    return view_of(
        ReplicaStorage,
        survey,
        surveyedAt=survey.at,
        levels=levels,
        lastSnapshot=survey.snapshot_at,
        growthPerDay=growth_per_day,
    )
