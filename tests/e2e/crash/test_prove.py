"""``emulator prove``: its receipt of a version that keeps its promises, and of one that lost a row."""

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from emulator.cli.commands.releases.prove import describe
from emulator.proving import receipt
from emulator.proving.child import until
from emulator.proving.proof import Proof

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.crash, pytest.mark.any_python]

ROOT = Path(__file__).parents[3]
SEED = 8  # its plan begins with a lost disk
FULL_DISK_SEED = 12
LIMIT_S = 100


def test_after_a_lost_disk_the_ledger_balances_and_a_row_that_is_lost_later_is_named(tmp_path: Path) -> None:
    said: list[str] = []
    proof = Proof(tmp_path / "run", SEED, said.append)
    try:
        proof.start()
        proof.run(1, None)
        proof.finish()
        kept = receipt.facts_of(proof, 1.0, 0.0)
        with closing(apsw.Connection(str(proof.post.db))) as conn:
            conn.execute("DELETE FROM responses WHERE message = 're c100 0003'")
        broken = receipt.facts_of(proof, 1.0, 0.0)
    finally:
        proof.close()

    assert kept["verdict"] == "kept", kept["promises"]
    assert [each["kind"] for each in kept["rounds"]] == ["lost disk"]
    ledger = kept["ledger"]
    ends = [ledger[end] for end in ("answered", "dead", "dropped", "waiting", "cancelled")]
    assert sum(ends) == ledger["accepted"] == 260
    assert (ledger["lost"], ledger["waiting"], ledger["reasons"]["dropped"]) == (0, 0, {"sender_unknown": 20})
    assert all(len(each["doubts"]) >= each["arrivals"] - 1 for each in ledger["arrivedTwice"])
    assert said == [f"round 1, lost disk: {kept['rounds'][0]['did']}; 260 messages accepted, nothing lost"]
    assert describe(kept).code == 0

    assert broken["verdict"] == "broken"
    assert list(broken["ledger"]["lostMessages"].values()) == ["its turn ended without an answer"]
    assert any("arrived without a response: ('100', 're c100 0003')" in each for each in _problems(broken))
    assert describe(broken).code == 1


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    proof = Proof(tmp_path / "run", FULL_DISK_SEED)
    try:
        proof.start()
        proof.run(1, None)
        facts = receipt.facts_of(proof, 1.0, 0.0)
    finally:
        proof.close()
    assert facts["verdict"] == "kept", facts["promises"]
    assert [each["kind"] for each in facts["rounds"]] == ["full disk"]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)], ids=["stopped", "killed"]
)
def test_a_run_that_ends_early_leaves_no_process(tmp_path: Path, number: int, code: int) -> None:
    argv = [sys.executable, "-m", "emulator", "prove", "--rounds", "1", "--seed", str(SEED)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(argv, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until("the processes of the run", lambda: list(tmp_path.glob("postroom-prove-*/host/ingest.log")), LIMIT_S)
        process.send_signal(number)
        assert process.wait(LIMIT_S) == code
    finally:
        process.kill()
        process.wait()
    until("all of them to end", lambda: not any(_names(entry, tmp_path) for entry in Path("/proc").glob("[0-9]*")))
    # Of a run that was killed, rows and logs are left.
    assert bool(list(tmp_path.iterdir())) is (number == signal.SIGKILL)


def _names(process: Path, folder: Path) -> bool:
    try:
        return os.fsencode(f"{folder}/") in (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
    except OSError:
        return False


def _problems(facts: dict[str, Any]) -> list[str]:
    return [each for found in facts["promises"].values() for each in found]
