"""Replication: Litestream under supervision, the lease on a replica, and restores. docs/replication.md explains it.

The emulator and the programs of ``infra`` import from here. What the functions need is ``shared/db/replica/sync.py``.
"""

from infra.litestream.bucket.bucket_survey import look_into_bucket
from infra.litestream.comparison.compare import compare_with_restore
from infra.litestream.comparison.finding import Comparison, comparison_facts
from infra.litestream.comparison.proofs import record_proof
from infra.litestream.drill import DeadWriter, DrillRefused, DrillResult, check_room, present_prefix
from infra.litestream.lease import Lease, lease_on
from infra.litestream.local_state import distrust as distrust_local_state
from infra.litestream.prepare import Ready, Step, prepare_replication
from infra.litestream.replica_settings import lease_ms_from, retention_ms_from
from infra.litestream.restored_files import FileRefused
from infra.litestream.restored_files import restore as restore_prefix
from infra.litestream.supervision.doubt import Doubt
from infra.litestream.supervisor import Fenced, LitestreamSupervisor

__all__ = [
    "Comparison",
    "DeadWriter",
    "Doubt",
    "DrillRefused",
    "DrillResult",
    "Fenced",
    "FileRefused",
    "Lease",
    "LitestreamSupervisor",
    "Ready",
    "Step",
    "check_room",
    "compare_with_restore",
    "comparison_facts",
    "distrust_local_state",
    "lease_ms_from",
    "lease_on",
    "look_into_bucket",
    "prepare_replication",
    "present_prefix",
    "record_proof",
    "restore_prefix",
    "retention_ms_from",
]
