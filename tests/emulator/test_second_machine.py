"""The emulator holds the lease on its bucket: it refuses other machines, and ends when it loses the lease."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from shared.db.replica import lease_record
from shared.db.replica.object_store import ObjectStore, open_store
from shared.db.replica.stored_objects import CLOCK, ObjectChanged
from tests.emulator.harness import ROOT, Emulator, command, wait_gone
from tests.emulator.storage.test_s3_server import ENVIRONMENT, s3_server

pytestmark = [pytest.mark.e2e, pytest.mark.long]


def taken_by_another(store: ObjectStore) -> None:
    """Another machine takes the lease; it asks again when the first one renewed it in between."""
    while True:
        found = store.get(lease_record.NAME)
        assert found is not None
        there = lease_record.LeaseRecord.load(found.body)
        other = replace(there, owner="owner_x", token="x", host="elsewhere", is_released=False)
        with contextlib.suppress(ObjectChanged):
            store.put(lease_record.NAME, other.dump(), replacing=found.tag)
            return


def objects(state: Path) -> dict[str, bytes]:
    """The objects in the bucket, without the probe object that tells the bucket's time."""
    bodies = {path.name: path.read_bytes() for path in (state / "s3" / "postroom-replica").iterdir()}
    return {name: body for name, body in bodies.items() if f'"db/{CLOCK}"'.encode() not in body}


def test_another_machine_is_refused_and_an_emulator_that_lost_the_lease_ends(
    emulator: Callable[..., Emulator], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSTROOM_REPLICA_LEASE", "5s")
    running = emulator("--no-watch")
    url = running.instance["urls"]["replica"]
    pids = running.pids()
    place = running.status["replica"]["place"]
    assert place.startswith(url.partition("?")[0] + "/epoch_")

    environment = {**ENVIRONMENT, "POSTROOM_REPLICA_URL": url, "POSTROOM_DB": str(tmp_path / "other.db")}
    refused = subprocess.run(
        [sys.executable, "-m", "infra.restore"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert refused.returncode == 73
    assert str(running.project) in json.loads(refused.stdout.splitlines()[-1])["reason"]
    assert running.status["ready"]

    taken_by_another(open_store(url, ENVIRONMENT))
    assert running.process.wait(90) == 73
    assert "may no longer replicate: elsewhere" in running.output.read_text()
    wait_gone(pids)


def test_a_bucket_of_another_machine_is_left_alone(emulator: Callable[..., Emulator], project: Path) -> None:
    assert emulator("--no-watch").stop() == 0
    state = project / ".emulator"
    with s3_server(state / "s3") as port:
        taken_by_another(open_store(f"s3://postroom-replica/db?endpoint=http://127.0.0.1:{port}", ENVIRONMENT))
    before = objects(state)
    written_at = (state / "postroom.db").stat().st_mtime_ns

    refused = command(project, "run", "--port", "0", "--no-watch")

    assert refused.returncode == 73
    assert "another machine replicates to this replica: elsewhere" in refused.stderr
    assert "try again in" in refused.stderr
    assert objects(state) == before
    assert (state / "postroom.db").stat().st_mtime_ns == written_at
