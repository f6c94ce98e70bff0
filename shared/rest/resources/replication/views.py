"""The shapes of what the API says about the replica."""

from typing_extensions import TypedDict

from shared.db.engine.restore_proofs import MadeBy, ProofOutcome


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


class RequestCountsView(TypedDict):
    """Requests to the bucket as S3 bills them, and their bytes."""

    puts: int
    gets: int
    lists: int
    deletes: int
    sentBytes: int
    receivedBytes: int


class BucketRequests(TypedDict):
    """The requests of the newest days, counted for *observedSeconds*: Litestream's, and those of our own client."""

    days: int
    observedSeconds: int
    litestream: RequestCountsView
    postroom: RequestCountsView


class MonthCostView(TypedDict):
    """US dollars in 30 days like those that were counted; *pricesAsOf*: when S3 took these prices."""

    puts: float
    gets: float
    lists: float
    deletes: float
    storage: float
    total: float
    pricesAsOf: str


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
    """*problems*: one sentence for each thing that is not well, with the next step.

    *position*: of the database here, *replicatedPosition*: of the bucket, as Litestream says; null if it is not asked.
    *behindSeconds*: how long the oldest commit waits that is not in the bucket.
    *monthCost*: null before ten minutes, and of a replica in a folder.
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
    monthCost: MonthCostView | None


class ReplicaSummary(TypedDict):
    """*provenRestore*: the last one that was compared with the database; *overdue*: it was too long ago."""

    provenRestore: RestoreProofView | None
    overdue: bool
    bytes: int | None
    requests: BucketRequests | None
    monthCost: MonthCostView | None
