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


def look(url: str, environ: Mapping[str, str], growth: float | None) -> BucketLook:
    """Ask the bucket at *url*; one that does not answer is a problem, and no failure.

    Args:
        growth: by how many bytes it grows in a day, as the API says.
    """
    from infra.litestream import look_into_bucket  # slow imports that no other command needs
    from shared.rest.resources.replication.views import view_storage

    now_ms = clock.machine_ms()
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
    return BucketLook(
        {
            "prefix": there.current.path,
            "epoch": there.current.epoch,
            "newestInBucket": found.position or None,
            "lease": {"holder": f"{there.host} ({there.database}, {there.owner})", "renewedAt": there.renewed_at,
                      "until": until},
            "storage": view_storage(found, growth),
        },
        problems,
    )  # fmt: skip
