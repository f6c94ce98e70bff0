"""Whether a restore of the replica was proven, and how long ago."""

from pathlib import Path

import apsw

from emulator.cli.checks.finding import Finding, ok, warning
from shared.core.errors import PostroomError
from shared.core.time.durations import time_span
from shared.db.engine import meta, restore_proofs
from shared.db.engine.connection import open_connection
from shared.db.replica import replica_problems, replica_report

_MEND = "emulator replica drill --no-kill"


def finding(database: Path, *, now_ms: int) -> Finding | None:
    """Of the replica of *database*; None where nothing has replicated it yet, or it can't be read."""
    try:
        conn = open_connection(database, readonly=True)
        try:
            proven, newest = restore_proofs.last_proven(conn), restore_proofs.newest(conn)
            began_at = meta.began_at(conn)
        finally:
            conn.close()
    except (PostroomError, apsw.Error):
        return None  # there is no database, or one of an older release
    report = replica_report.read(database)
    if newest is not None and not newest.is_proof:
        return warning("proof", f"the newest restore is not the database: {newest.reason}", "see infra/README.md")
    if proven is None:
        return None if report is None else warning("proof", "no restore of the replica was ever proven", _MEND)
    every_ms = report.verify_every_ms if report else 0
    if replica_problems.is_overdue(proven, every_ms, began_at=began_at, now_ms=now_ms):
        return warning("proof", replica_problems.overdue_sentence(proven, every_ms, now_ms=now_ms), _MEND)
    return ok("proof", f"a restore of {time_span(now_ms - proven.made_at)} ago was the database")
