"""The drill on a running emulator: the writer dies under load, and everything comes back."""

import json

import pytest

from tests.emulator.harness import command

pytestmark = [pytest.mark.e2e, pytest.mark.long]


def test_a_drill_kills_restores_compares_and_brings_everything_back(emulator, project):
    running = emulator()
    generations = {each["name"]: each["generation"] for each in running.status["functions"]}
    pids = {each["pid"] for each in running.status["functions"]} | {running.status["replica"]["pid"]}
    place = running.status["replica"]["place"]

    done = command(project, "replica", "drill", "--yes", "--load", "20", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["outcome"] in ("equal", "behind")
    assert found["load"]["accepted"] > 50
    assert found["replica"] == place, "it was restored from the prefix that the dead Litestream wrote"
    assert found["rows"] > 300

    status = running.status
    assert status["ready"], status["problems"]
    assert {each["name"]: each["generation"] - 1 for each in status["functions"]} == generations
    assert pids.isdisjoint({each["pid"] for each in status["functions"]} | {status["replica"]["pid"]})
    assert status["replica"]["place"] != place

    proof = json.loads(command(project, "replica", "status", "--json").stdout)["provenRestore"]
    assert (proof["by"], proof["outcome"], proof["lostRows"]) == ("drill_kill", found["outcome"], found["lostRows"])

    unkilled = command(project, "replica", "drill", "--no-kill", "--json")
    assert unkilled.returncode == 0, unkilled.stdout + unkilled.stderr
    assert running.status["functions"] == status["functions"], "nothing was killed"
    newest = json.loads(command(project, "replica", "status", "--json").stdout)
    assert (newest["problems"], newest["provenRestore"]["by"]) == ([], "drill")
