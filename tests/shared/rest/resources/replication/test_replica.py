"""What the API says about the replica."""

import asyncio

from functions import api
from shared.core.time import clock
from shared.db.engine import meta, restore_proofs
from shared.db.engine.connection import transaction
from tests.api_client import get
from tests.shared.db.replica.test_replica_report import HOUR, PROOF, REPORT
from tests.shared.db.replica.test_sync import SYNCED, Stranger
from tests.support import NOW


def prove(conn, **facts):
    with transaction(conn):
        restore_proofs.add(conn, PROOF._replace(**facts))


def test_where_nothing_replicates_the_status_has_no_replica(serving):
    assert get(serving, "/api/status").json()["replica"] is None
    found = get(serving, "/api/replica").json()
    assert (found["ok"], found["provenRestore"], found["position"]) == (False, None, None)
    assert "does infra.replicate run?" in found["problems"][0]


def test_the_status_has_the_age_of_the_last_proven_restore(serving, db, conn):
    REPORT.write(db)
    now_ms = clock.now_ms()
    prove(conn, made_at=now_ms - 2 * HOUR, restore_ms=900)
    prove(conn, made_at=now_ms - HOUR, outcome="damaged", reason="files are missing")
    found = get(serving, "/api/status").json()["replica"]

    assert 7200 <= found["provenRestore"]["age"] < 7260
    assert found["provenRestore"]["outcome"] == "equal"
    assert (found["overdue"], found["bytes"]) == (False, 4000)


def test_a_proof_that_is_overdue_is_a_problem_of_the_health(serving, db, conn):
    REPORT.write(db)
    with transaction(conn):
        meta.put(conn, "began_at", str(clock.now_ms() - 900 * HOUR))
    prove(conn, made_at=clock.now_ms() - 50 * HOUR)
    assert get(serving, "/api/status").json()["replica"]["overdue"] is True
    for path in ("/api/health", "/api/replica"):
        said = get(serving, path).json()["problems"]
        assert any(each.startswith("the last proven restore is 50 h old, and one is due every 24 h") for each in said)


def test_everything_about_a_replica_that_is_well(serving, db, conn, environment, monkeypatch):
    socket = environment / "litestream.sock"
    monkeypatch.setenv("POSTROOM_LITESTREAM_SOCKET", str(socket))
    REPORT.write(db)
    prove(conn)

    async def go():
        async with Stranger(socket, SYNCED), serving(api) as client:
            return (await client.get("/api/replica")).json()

    found = asyncio.run(go())
    assert (found["ok"], found["problems"]) == (True, [])
    assert (found["url"], found["prefix"], found["epoch"]) == ("s3://bucket/db", "epoch_2", "epoch_1")
    assert found["position"] == found["replicatedPosition"]
    assert (found["behindSeconds"], found["lease"]["until"]) == (0.0, NOW + 55_000)
    assert found["storage"]["lastSnapshot"] == NOW - HOUR
    assert (found["requests"]["puts"], found["requests"]["since"]) == (4, NOW - HOUR)
