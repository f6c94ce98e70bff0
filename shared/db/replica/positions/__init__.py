"""A replica by position: which positions it has, and which one an instant or a txid means.

A replica is an object-storage prefix (``s3://bucket/prefix?endpoint=http://127.0.0.1:9000``) or a folder
(``file:///var/backups/postroom``). The real ``litestream`` program does the reading. Nothing here writes to a replica.
"""

from shared.db.replica.positions.errors import (
    PositionMissing,
    ReplicaInvalid,
    ReplicaMissing,
    ReplicaUnreachable,
    RestoreFailed,
)
from shared.db.replica.positions.litestream import environment_of
from shared.db.replica.positions.pins import Pin, every_position, resolve
from shared.db.replica.positions.urls import check_url, shown

__all__ = [
    "Pin",
    "PositionMissing",
    "ReplicaInvalid",
    "ReplicaMissing",
    "ReplicaUnreachable",
    "RestoreFailed",
    "check_url",
    "environment_of",
    "every_position",
    "resolve",
    "shown",
]
