"""Reads a Litestream replica by position: pins a position, restores it once per host, and hands out the file.

A replica is an object-storage prefix (``s3://bucket/prefix?endpoint=http://127.0.0.1:9000``) or a folder
(``file:///var/backups/postroom``). The real ``litestream`` program does the reading; these modules add what it lacks.
Credentials come from the environment (``AWS_ACCESS_KEY_ID`` ...) or its files, never from the URL.
"""

from spark_jobs.replicas.cache import default_cache, ensure_local, pinned
from spark_jobs.replicas.errors import (
    PositionMissing,
    ReplicaInvalid,
    ReplicaMissing,
    ReplicaUnreachable,
    RestoreFailed,
)
from spark_jobs.replicas.pins import Pin, resolve
from spark_jobs.replicas.urls import check_url

__all__ = [
    "Pin",
    "PositionMissing",
    "ReplicaInvalid",
    "ReplicaMissing",
    "ReplicaUnreachable",
    "RestoreFailed",
    "check_url",
    "default_cache",
    "ensure_local",
    "pinned",
    "resolve",
]
