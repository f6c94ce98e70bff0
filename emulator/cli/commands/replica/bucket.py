"""What the bucket itself says at this moment: its lease record, and its files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.core.errors import PostroomError
from shared.core.time import clock


@dataclass(frozen=True, slots=True)
class BucketLook:
    """Facts that replace those of the API, and a sentence for each thing that is not well."""

    facts: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def look(url: str, environ: Mapping[str, str]) -> BucketLook:
    """Ask the bucket at *url*; one that does not answer is a problem, and no failure."""
    from infra.litestream import look_into_bucket  # slow imports that no other command needs

    now_ms = clock.now_ms()
    try:
        there, found = look_into_bucket(url, environ, now_ms=now_ms)
    except PostroomError as error:
        return BucketLook(problems=[f"the bucket does not answer: {error}"])
    if there is None or found is None:
        return BucketLook(problems=["the bucket has no lease.json: nothing replicates there. Restart the emulator"])
    until = there.renewed_at + there.ttl_ms
    problems = []
    if there.is_released or until < now_ms:
        problems.append("nobody holds the lease on the replica now: is the emulator stopping? Else restart it")
    storage = {
        "surveyedAt": now_ms,
        "files": found.files,
        "bytes": found.bytes,
        "oldPrefixes": found.old_prefixes,
        "levels": [
            {
                "level": each.level,
                "files": each.files,
                "bytes": each.bytes,
                "position": each.position,
                "writtenAt": each.written_at,
            }
            for each in found.levels
        ],
        "lastSnapshot": found.snapshot_at,
    }
    return BucketLook(
        {
            "prefix": there.current.path,
            "epoch": there.current.epoch,
            "newestInBucket": found.position or None,
            "lease": {"holder": f"{there.host} ({there.database}, {there.owner})", "renewedAt": there.renewed_at,
                      "until": until},
            "storage": storage,
        },
        problems,
    )  # fmt: skip
