"""Reads a Litestream replica by position: pins one (``shared/db/replica/positions``), and restores it once a host.

A replica is an object-storage prefix (``s3://bucket/prefix?endpoint=http://127.0.0.1:9000``) or a folder
(``file:///var/backups/postroom``). The real ``litestream`` program does the reading; these modules add what it lacks.
Credentials come from the environment (``AWS_ACCESS_KEY_ID`` ...) or its files, never from the URL.
"""

from shared.db.replica.positions import (
    Pin,
    PositionMissing,
    ReplicaInvalid,
    ReplicaMissing,
    ReplicaUnreachable,
    RestoreFailed,
    check_url,
    every_position,
    resolve,
    shown,
)
from spark_jobs.replicas.cache import default_cache, drop_idle, ensure_local, restore_pinned

__all__ = [
    "Pin",
    "PositionMissing",
    "ReplicaInvalid",
    "ReplicaMissing",
    "ReplicaUnreachable",
    "RestoreFailed",
    "check_url",
    "default_cache",
    "drop_idle",
    "ensure_local",
    "every_position",
    "resolve",
    "restore_pinned",
    "shown",
]
