"""The ``restore_proofs`` table: restores of the replica that were compared with the database. Rows are only added."""

from typing import Literal, NamedTuple

import apsw

from shared.db.engine.connection import insert_into, rows

MadeBy = Literal["comparison", "drill", "drill_kill"]
ProofOutcome = Literal["equal", "behind", "differs", "damaged"]


class RestoreProof(NamedTuple):
    """A row of ``restore_proofs``.

    Attributes:
        made_at: when the comparison ended, ms UTC.
        made_by: the scheduled comparison, a drill, or a drill that killed the writer.
        outcome: ``behind`` is an earlier state of the same history: the newest rows are missing.
        replica: the URL of the restored prefix, without a query.
        position: sixteen hexadecimal digits; empty where nothing was restored.
        tables, rows, bytes: of the database.
        restore_ms: how long the restore took; None where it is not known.
        total_ms: how long everything took.
        lost_rows: rows of the database that the restore lacks.
        reason: for people; None where they are equal.
    """

    made_at: int
    made_by: MadeBy
    outcome: ProofOutcome
    replica: str
    position: str
    tables: int
    rows: int
    bytes: int
    restore_ms: int | None
    total_ms: int
    lost_rows: int = 0
    reason: str | None = None

    @property
    def is_proof(self) -> bool:
        """Whether the replica can be relied on: it restored to the database, or to an earlier state of it."""
        return self.outcome in ("equal", "behind")


_ADD = insert_into("restore_proofs", RestoreProof._fields)
_COLUMNS = ", ".join(RestoreProof._fields)


def add(conn: apsw.Connection, proof: RestoreProof) -> None:
    """Record a comparison."""
    conn.execute(_ADD, proof)


def newest(conn: apsw.Connection) -> RestoreProof | None:
    """The newest comparison, whatever it found."""
    return _first(conn, "1")


def last_proven(conn: apsw.Connection) -> RestoreProof | None:
    """The newest comparison that proved the replica."""
    return _first(conn, "outcome IN ('equal', 'behind')")


def _first(conn: apsw.Connection, condition: str) -> RestoreProof | None:
    found = rows(conn, f"SELECT {_COLUMNS} FROM restore_proofs WHERE {condition} ORDER BY id DESC LIMIT 1")  # noqa: S608 - our own words
    return RestoreProof(*found[0]) if found else None
