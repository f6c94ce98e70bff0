"""`emulator run --from-replica` where there is no such past: a sentence, an exit code, and nothing left behind."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from emulator.cli.app import app
from shared.db.engine.connection import open_connection, transaction
from shared.db.engine.past import Past, mark
from shared.roster.new_database import prepare_database

runner = CliRunner()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to stand in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("options", "code", "part"),
    [
        (["--timestamp", "2020-01-01"], 64, "name it with --from-replica"),
        (["--from-replica", "s3://b/p", "--timestamp", "9999-01-01"], 65, "is in the future"),
        (["--from-replica", "s3://b/p", "--timestamp", "2020-01-01", "--txid", "11"], 64, "leave one of them out"),
        (["--from-replica", "http://b/p", "--timestamp", "2020-01-01"], 65, "a replica is s3://bucket/prefix"),
    ],
)
def test_options_that_name_no_past_are_refused(here: Path, options: list[str], code: int, part: str) -> None:
    refused = runner.invoke(app, ["run", *options])
    assert (refused.exit_code, part in refused.stderr) == (code, True), refused.stderr
    assert [each.name for each in here.rglob("*") if each.is_file()] == []


@pytest.mark.parametrize("position", [[], ["--timestamp", "2020-01-01"], ["--txid", "11"]])
@pytest.mark.parametrize("state", [[], ["--state", "elsewhere"]])
def test_where_nothing_was_replicated_nothing_is_made(here: Path, position: list[str], state: list[str]) -> None:
    (here / "bucket").mkdir()
    refused = runner.invoke(app, ["run", "--from-replica", f"file://{here}/bucket", *position, *state])
    assert refused.exit_code == 66
    assert "there is no replica at file://" in refused.stderr
    assert [each.name for each in here.rglob("*") if each.is_file()] == []


def test_a_folder_with_another_past_is_left_as_it_is(here: Path) -> None:
    (here / "kept").mkdir()
    database = here / "kept" / "postroom.db"
    prepare_database(database)
    conn = open_connection(database)
    with transaction(conn):
        mark(conn, Past("s3://b/other", "", "0000000000000001", "2026-11-23T01:00:36Z"))
    conn.close()
    before = database.read_bytes()
    refused = runner.invoke(app, ["run", "--from-replica", "s3://b/p", "--txid", "11", "--state", "kept"])
    assert refused.exit_code == 64
    assert "holds another past: s3://b/other at 2026-11-23T01:00:36Z" in refused.stderr
    assert database.read_bytes() == before
