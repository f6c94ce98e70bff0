"""Records in the database what a comparison with a restore has found."""

import contextlib
from pathlib import Path

import apsw

from infra.litestream.comparison.finding import Comparison
from shared.core.errors import PostroomError
from shared.db.engine import restore_proofs
from shared.db.engine.connection import open_connection, transaction
from shared.db.engine.restore_proofs import MadeBy, RestoreProof
from shared.db.replica.positions.urls import without_secrets


def of_comparison(found: Comparison, made_by: MadeBy, now_ms: int) -> RestoreProof:
    """The row for a comparison of the live database with a restore of the same position."""
    tables = ", ".join(each.table for each in found.differences)
    lost = sum(max(0, (each.here or 0) - (each.there or 0)) for each in found.differences)
    return RestoreProof(
        made_at=now_ms,
        made_by=made_by,
        outcome="damaged" if found.damage else "equal" if found.is_equal else "differs",
        replica=without_secrets(found.replica),
        position=found.position,
        tables=found.tables,
        rows=found.rows,
        bytes=found.bytes,
        restore_ms=round(found.restore_s * 1000),
        total_ms=round(found.seconds * 1000),
        lost_rows=0 if found.damage else lost,
        reason=found.damage or (f"these tables differ: {tables}" if tables else None),
    )


def record_proof(database: Path, proof: RestoreProof) -> None:
    """Add the row. It tells people: a database that can't take it now, or of an earlier release, is no failure."""
    with contextlib.suppress(PostroomError, apsw.Error, OSError):
        conn = open_connection(database)
        try:
            with transaction(conn):
                restore_proofs.add(conn, proof)
        finally:
            conn.close()
