"""The doctor's line about the last proven restore."""

from emulator.cli.checks import proof
from shared.db.engine import meta, restore_proofs
from shared.db.engine.connection import transaction
from tests.shared.db.replica.test_replica_report import HOUR, PROOF, REPORT
from tests.support import NOW


def prove(conn, **facts):
    with transaction(conn):
        restore_proofs.add(conn, PROOF._replace(**facts))


def test_without_a_database_or_a_replica_there_is_nothing_to_prove(tmp_path, db, conn):
    assert proof.finding(tmp_path / "none.db", now_ms=NOW) is None
    assert proof.finding(db, now_ms=NOW) is None


def test_a_replica_that_was_never_proven_is_a_warning(db, conn):
    REPORT.write(db)
    found = proof.finding(db, now_ms=NOW)
    assert (found.level, found.mend) == ("warning", "emulator replica drill --no-kill")


def test_a_proof_is_well_until_twice_the_period_has_passed(db, conn):
    REPORT.write(db)
    with transaction(conn):
        meta.put(conn, "began_at", str(NOW - 900 * HOUR))
    prove(conn, made_at=NOW - 48 * HOUR)
    assert proof.finding(db, now_ms=NOW)[:3] == ("proof", "ok", "a restore of 2 d ago was the database")
    late = proof.finding(db, now_ms=NOW + HOUR)
    assert (late.level, late.says[:39]) == ("warning", "the last proven restore is 49 h old, an")


def test_a_newer_comparison_that_failed_outweighs_a_proof(db, conn):
    prove(conn)
    prove(conn, outcome="differs", reason="these tables differ: agents")
    found = proof.finding(db, now_ms=NOW)
    assert (found.level, found.says) == (
        "warning",
        "the newest restore is not the database: these tables differ: agents",
    )
