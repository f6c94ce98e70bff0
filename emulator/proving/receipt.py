"""The receipt of a run: the machine, the versions, what was done, the ledger, and whether each promise was kept."""

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw

from emulator.base.version import versions
from emulator.proving import promises
from emulator.proving.proof import Proof
from shared.core.time import clock
from shared.db.engine import schema


def facts_of(proof: Proof, seconds: float, load_before: float) -> dict[str, Any]:
    """The receipt for programs; its keys stay."""
    seen = proof.post.witnesses()
    found = {name: promises.problems_of(seen, [promise]) for name, promise in promises.PROMISES.items()}
    known = {problem for problems in found.values() for problem in problems}
    found["the replica restores to the same rows; nothing waits for ever"] = [
        each for each in proof.problems if each not in known
    ]
    is_kept = not any(found.values())
    return {
        "verdict": "kept" if is_kept else "broken",
        "at": datetime.fromtimestamp(clock.now_ms() / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": round(seconds, 1),
        "machine": machine(load_before),
        "versions": {**versions(), "sqlite": apsw.sqlite_lib_version(), "schema": max(schema.migrations())},
        "seed": proof.seed,
        "did": dict(proof.did),
        "rounds": [
            {"round": each.number, "kind": each.kind, "did": each.did, "seconds": each.seconds,
             "accepted": each.accepted, "problems": list(each.problems)}
            for each in proof.rounds
        ],
        "starts": {name: child.starts for name, child in proof.post.children.items()},
        "ledger": proof.balance().facts(),
        "promises": found,
        "folder": None if is_kept else str(proof.folder),
    }  # fmt: skip


def machine(load_before: float) -> dict[str, Any]:
    """What a reader needs to judge the figures; no name of the machine."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "memoryMb": _memory_mb(),
        "loadBefore": round(load_before, 1),
        "loadAfter": round(os.getloadavg()[0], 1),
    }


def _memory_mb() -> int | None:
    try:
        first = Path("/proc/meminfo").read_text().splitlines()[0]
    except OSError:  # not a Linux
        return None
    return int(first.split()[1]) // 1024
