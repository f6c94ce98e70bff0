"""Restores that were compared with the database, as rows."""

import apsw
import pytest

from shared.db.engine import restore_proofs
from shared.db.engine.connection import transaction
from shared.db.engine.restore_proofs import RestoreProof
from tests.support import NOW

EQUAL = RestoreProof(NOW, "comparison", "equal", "s3://b/db/epoch_1", "000000000000000a", 40, 1000, 5000, 900, 2000)
BEHIND = EQUAL._replace(made_at=NOW + 1, made_by="drill_kill", outcome="behind", lost_rows=3, reason="3 rows")
DAMAGED = EQUAL._replace(made_at=NOW + 2, outcome="damaged", position="", restore_ms=None, reason="files are missing")


def add(conn, *proofs):
    with transaction(conn):
        for each in proofs:
            restore_proofs.add(conn, each)


def test_a_database_without_proofs_has_none(conn):
    assert (restore_proofs.newest(conn), restore_proofs.last_proven(conn)) == (None, None)


def test_an_earlier_state_is_a_proof_and_a_damaged_replica_is_none(conn):
    add(conn, EQUAL, BEHIND, DAMAGED)
    assert restore_proofs.newest(conn) == DAMAGED
    assert restore_proofs.last_proven(conn) == BEHIND
    assert [each.is_proof for each in (EQUAL, BEHIND, DAMAGED)] == [True, True, False]


@pytest.mark.parametrize(
    "wrong",
    [
        EQUAL._replace(reason="but"),
        EQUAL._replace(lost_rows=1),
        DAMAGED._replace(reason=None),
        EQUAL._replace(made_by="hope"),
        EQUAL._replace(outcome="fine"),
    ],
)
def test_a_row_that_contradicts_itself_is_refused(conn, wrong):
    with pytest.raises(apsw.ConstraintError):
        add(conn, wrong)
