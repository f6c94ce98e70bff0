"""``emulator verify`` against a running emulator and its bucket."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from emulator.cli.app import app
from emulator.cli.commands.verify import _describe
from emulator.cli.output import write
from infra.litestream.comparison.finding import Comparison, comparison_facts
from infra.litestream.comparison.table_digests import TableDifference
from shared.db.engine.connection import open_connection
from shared.db.replica import lease_record
from shared.db.replica.object_store import open_store
from tests.emulator.harness import Emulator, command
from tests.support import make_agent

FOUND = Comparison("s3://b/p", "000000000000000a", tables=29, rows=1234, bytes=4096, kept_s=0.02, seconds=1.5)


def add(running: Emulator, agent: str) -> None:
    conn = open_connection(running.project / ".emulator" / "postroom.db")
    make_agent(conn, agent)
    conn.close()


@pytest.mark.e2e
@pytest.mark.long
def test_a_restore_from_the_bucket_equals_the_running_database(running: Emulator) -> None:
    add(running, "kept")
    sentence = command(running.project, "verify")
    said = command(running.project, "verify", "--json")

    assert (sentence.returncode, said.returncode) == (0, 0), sentence.stderr + said.stderr
    assert sentence.stdout.startswith("A restore from the bucket equals the database: ")
    assert sentence.stderr == ""
    assert json.loads(said.stdout)["replica"] == running.status["replica"]["place"]
    assert not list((running.project / ".emulator").glob("*.verifying"))


@pytest.mark.e2e
@pytest.mark.long
def test_a_bucket_with_missing_files_can_not_be_restored(running: Emulator) -> None:
    store = open_store(running.instance["urls"]["replica"], running.instance["environment"])
    place = lease_record.newest_prefix(store, lease_record.read(store))
    assert place is not None
    for number in range(10):  # Litestream may repair it in between, when it compacts files
        add(running, f"lost-{number}")
        assert command(running.project, "verify").returncode == 0
        for name in store.names(place.key(""), limit=1000):
            store.delete(name)
        done = command(running.project, "verify")
        if done.returncode != 0:
            break
    assert done.returncode == 65, done.stdout + done.stderr
    assert done.stdout.startswith("The bucket can't be restored: ")


def test_without_a_running_emulator_it_says_how_to_start_one(tmp_path: Path) -> None:
    refused = CliRunner().invoke(app, ["verify", "--state", str(tmp_path)])
    assert refused.exit_code == 69
    assert refused.stderr.startswith(f"error: no emulator is running in {tmp_path}: start it with")


def test_tables_that_differ_are_listed_with_both_row_counts() -> None:
    lacking = replace(FOUND, differences=(TableDifference("agents", 3, 2), TableDifference("new", 1, None)))
    said = _describe(lacking, comparison_facts(lacking))
    shown = io.StringIO()
    write(said, as_json=False, stream=shown)

    assert said.code == 65
    first, _, head, *lines = shown.getvalue().splitlines()
    assert first.startswith("A restore from the bucket differs from the database: 1234 rows in 29 tables")
    assert head.split() == ["table", "rows", "in", "the", "database", "rows", "in", "the", "bucket"]
    assert [line.split() for line in lines] == [
        ["agents", "3", "2"],
        ["new", "1", "no", "such", "table"],
    ]
