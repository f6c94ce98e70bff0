import json
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import StructType

from spark_jobs import replicas
from spark_jobs.__main__ import main
from spark_jobs.history import comparison
from spark_jobs.history.changes import change_fields, changed_rows, diff, first_changes
from spark_jobs.history.matches import match_tables
from spark_jobs.history.spans import Span

MIGRATIONS = Path(__file__).parents[3] / "shared" / "db" / "migrations"
NOON = 1_760_011_200_000  # 2025-10-09 12:00 UTC
AT_NOON = datetime(2025, 10, 9, 12, tzinfo=UTC)


@pytest.fixture
def position(primary):
    """Replicate; return the txid of the newest position."""

    def position():
        primary.replicate()
        return replicas.resolve(primary.url).txid

    return position


@pytest.fixture
def span(primary, cache):
    return lambda begin, end=None, **options: Span.of(primary.url, begin, end, cache_dir=str(cache), **options)


def counts(span, *names):
    """(inserted, changed, deleted) of each table that changed."""
    return {
        each.table.name: (each.counts.inserted, each.counts.changed, each.counts.deleted)
        for each in diff(span, names)
        if each.is_changed
    }


def one(span, name):
    (table,) = match_tables(span, [name])
    return table


def rows(span, name):
    table = one(span, name)
    return [row for batch in changed_rows(span, table) for row in batch.to_pylist()]


def test_a_diff_tells_inserted_changed_and_deleted_rows_of_every_table(primary, position, span):
    primary.receive(5)
    primary.happen("message_received")
    begin = position()
    primary.execute("UPDATE messages SET status = 'processing', claimed_by = 't', lease = 9 WHERE id = 2")
    primary.execute("UPDATE messages SET last_error = 'no' WHERE id IN (1, 3)")
    primary.execute("DELETE FROM messages WHERE id = 4")
    primary.receive(2)
    primary.happen("message_retry", "message_dead")
    position()

    between = span(begin)
    assert counts(between) == {"messages": (2, 3, 1), "events": (2, 0, 0)}
    (messages,) = diff(between, ["messages"])
    assert (messages.counts.before, messages.counts.after) == (5, 6)
    assert messages.counts.changes == {"status": 1, "claimed_by": 1, "lease": 1, "last_error": 2}


def test_each_changed_row_stands_with_its_old_and_its_new_values(primary, position, span):
    primary.receive(3)
    begin = position()
    primary.execute("UPDATE messages SET status = 'completed', process_after = 7 WHERE id = 2")
    primary.execute("DELETE FROM messages WHERE id = 1")
    primary.receive(1)
    end = position()

    found = rows(span(begin, end), "messages")
    told = [(row["_change_type"], row["id"], row["status"], row["_changed"]) for row in found]
    assert told == [
        ("insert", 4, "pending", None),
        ("update_preimage", 2, "pending", "status,process_after"),
        ("update_postimage", 2, "completed", "status,process_after"),
        ("delete", 1, "pending", None),
    ]
    assert [row["process_after"] for row in found] == [None, None, datetime(1970, 1, 1, 0, 0, 0, 7000, UTC), None]
    assert {row["_txid"] for row in found} == {end}
    between = span(begin, end)
    inserted, updated, deleted = first_changes(between, one(between, "messages"), 5)
    assert updated == {
        "change": "update",
        "key": {"id": 2},
        "old": {"status": "pending", "process_after": None},
        "new": {"status": "completed", "process_after": datetime(1970, 1, 1, 0, 0, 0, 7000, UTC)},
    }
    assert (inserted["key"], inserted["new"]["created_at"]) == ({"id": 4}, AT_NOON)
    assert (deleted["key"], deleted["old"]["message"], deleted["new"]) == ({"id": 1}, "grüße 🙂", {})


def exit_code(command):
    try:
        return main(command)
    except SystemExit as ended:  # of argparse
        return ended.code


ODD = """
    CREATE TABLE samples (
        id INTEGER PRIMARY KEY, n INTEGER, r REAL, t TEXT, b BLOB, "select ""x"" naïve" TEXT NOT NULL DEFAULT '',
        c TEXT COLLATE NOCASE
    ) STRICT;
    CREATE TABLE pairs (a TEXT, b INTEGER, v TEXT, PRIMARY KEY (a, b)) STRICT, WITHOUT ROWID;
    CREATE TABLE nocase (k TEXT PRIMARY KEY COLLATE NOCASE, v TEXT) STRICT;
    CREATE TABLE keyless (n INTEGER, t TEXT) STRICT;
    CREATE TABLE late (rowid TEXT, _rowid_ TEXT, oid INTEGER) STRICT;
    CREATE TABLE loose (id INTEGER PRIMARY KEY, v);
    CREATE TABLE empty (id INTEGER PRIMARY KEY, v TEXT) STRICT;
"""


def test_every_type_and_key_is_compared_exactly(primary, position, span):
    for statement in ODD.split(";"):
        primary.execute(statement)
    primary.execute(
        "INSERT INTO samples VALUES (1, NULL, NULL, NULL, NULL, 'a', 'x'), (2, 9007199254740993, 0.5, 'ä', x'00ff',"
        " 'b', 'x'), (-9223372036854775808, 1, 1.0, '', x'', 'c', 'x'), "
        "(9223372036854775807, 1, 1.0, '1', x'31', 'd', 'x')"
    )
    primary.execute("INSERT INTO pairs VALUES ('a', 1, 'x'), ('a', 2, NULL), ('b', 1, 'y')")
    primary.execute("INSERT INTO nocase VALUES ('key', 'v'), ('other', 'v')")
    primary.execute("INSERT INTO keyless VALUES (1, 'a'), (2, 'b')")
    begin = position()
    primary.execute("UPDATE samples SET n = 9007199254740992 WHERE id = 2")
    primary.execute("UPDATE samples SET t = '' WHERE id = 1")
    primary.execute("UPDATE samples SET c = 'X' WHERE id > 2")
    primary.execute('UPDATE samples SET "select ""x"" naïve" = \'other\' WHERE id < 0')
    primary.execute("UPDATE pairs SET v = 'z' WHERE a = 'a' AND b = 2")
    primary.execute("DELETE FROM pairs WHERE a = 'b'")
    primary.execute("INSERT INTO pairs VALUES ('b', 2, 'y')")
    primary.execute("UPDATE nocase SET k = 'KEY' WHERE k = 'key'")
    primary.execute("UPDATE keyless SET t = NULL WHERE n = 2")
    position()

    between = span(begin)
    assert counts(between) == {"samples": (0, 4, 0), "pairs": (1, 1, 1), "nocase": (0, 1, 0), "keyless": (0, 1, 0)}
    (samples,) = diff(between, ["samples"])
    assert samples.counts.changes == {"n": 1, "t": 1, "c": 1, 'select "x" naïve': 1}
    values = [
        (row["id"], row["n"], row["t"], row["b"])
        for row in rows(between, "samples")
        if row["_change_type"] == "update_postimage"
    ]
    assert values == [
        (-9223372036854775808, 1, "", b""),
        (1, None, "", None),
        (2, 9007199254740992, "ä", b"\x00\xff"),
        (9223372036854775807, 1, "1", b"1"),
    ]
    assert [row["k"] for row in rows(between, "nocase")] == ["key", "KEY"]
    told = {each.table.name: each.table.incomparable for each in diff(between, ["late", "loose", "empty"])}
    assert "its rowid has no name" in told["late"]
    assert "not STRICT" in told["loose"]
    assert told["empty"] is None


def test_ranges_of_rows_together_give_each_change_once(primary, position, span):
    primary.receive(50)
    begin = position()
    primary.execute("DELETE FROM messages WHERE id % 7 = 0")
    primary.execute("UPDATE messages SET retry_count = 1 WHERE id % 5 = 0")
    primary.receive(10)
    position()

    between = span(begin)
    table = one(between, "messages")
    fields = StructType(list(change_fields(table)))
    paths = between.paths()
    low, high = comparison.bounds(*paths, table)
    assert (low, high) == (1, 60)
    found = []
    for first in range(low, high + 1, 13):
        ranges = (first, min(first + 12, high))
        for batch in comparison.read_changes(*paths, table, fields, between.new.pin, ranges):
            found += batch.to_pylist()
    key = lambda row: (row["id"], row["_change_type"])  # noqa: E731
    assert sorted(found, key=key) == sorted(rows(between, "messages"), key=key)
    assert len(found) == 10 + 7 + 2 * 9


def test_an_id_that_was_given_again_after_a_restore_is_another_row(primary, position, span):
    primary.begin_prefix("first", "epoch_1")
    primary.receive(2)
    primary.happen("message_received")
    begin = position()
    primary.execute("DELETE FROM messages WHERE id = 2")  # the restore lost it
    primary.execute("UPDATE messages SET status = 'completed' WHERE id = 1")
    primary.receive(1, at=NOON + 5000)
    primary.begin_prefix("second", "epoch_2")
    position()

    between = span(f"{begin}@first")
    assert between.crosses_epochs
    assert counts(between) == {"messages": (1, 1, 1), "meta": (0, 1, 0)}
    found = {(row["_change_type"], row["id"], row["created_at"]) for row in rows(between, "messages")}
    assert {("delete", 2, AT_NOON.replace(microsecond=1000)), ("insert", 2, AT_NOON.replace(second=5))} < found
    assert counts(span(begin, f"{begin}@epoch_1", epoch="first")) == {}


def test_a_migration_in_between_is_told_and_changes_no_row(new_primary, tmp_path, cache):
    """The schema of an early release: columns and tables came later."""
    old = new_primary(tmp_path / "old.db", f"file://{tmp_path}/replica", 5)
    old.receive(3)
    old.replicate()
    begin = replicas.resolve(old.url).txid
    conn = apsw.Connection(str(old.path))
    for migration in sorted(MIGRATIONS.glob("*.sql"))[5:]:
        conn.execute(migration.read_text())
    conn.close()
    old.execute("UPDATE messages SET status = 'dead', spoken = 'turn_1' WHERE id = 2")
    old.replicate()

    between = Span.of(old.url, begin, None, cache_dir=str(cache))
    by_name = {each.table.name: each for each in diff(between)}
    assert by_name["messages"].counts.changes == {"status": 1}
    assert {"spoken"} <= set(by_name["messages"].table.added)
    assert by_name["usage"].table.old is None
    assert by_name["usage"].counts.before == 0
    (before, after) = rows(between, "messages")
    assert (before["spoken"], after["spoken"]) == (None, "turn_1")
    assert {each.table.name for each in by_name.values() if each.table.incomparable} == set()


def test_the_command_prints_the_positions_the_counts_and_the_rows(primary, position, cache, capsys, tmp_path):
    primary.receive(3)
    begin = position()
    primary.execute("UPDATE messages SET status = 'dead', last_error = 'bad \x1b[31m' || char(0x202e) WHERE id = 2")
    primary.receive(1)
    end = position()

    out = tmp_path / "out"
    command = [
        "diff",
        "--replica",
        primary.url,
        "--from",
        begin,
        "--cache-dir",
        str(cache),
        "--rows",
        "--out",
        str(out),
    ]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert f"from  txid {begin} of 20" in said
    assert f"to    txid {end} of 20" in said
    assert "messages 3 4 1 1 0 status 1, last_error 1" in [" ".join(line.split()) for line in said.splitlines()]
    assert (
        "messages id=2: update\n    status: 'pending' -> 'dead'\n    last_error: NULL -> 'bad \\x1b[31m\\u202e'\n"
        in said
    )
    assert "messages id=4: insert\n" in said
    assert "unchanged: accounts, agent_messages," in said
    written = pq.read_table(out / "messages.parquet").to_pylist()
    assert [row["_change_type"] for row in written] == ["insert", "update_preimage", "update_postimage"]
    manifest = json.loads((out / "manifest.json").read_text())
    assert (manifest["begins_at"]["txid"], manifest["txid"]) == (begin, end)
    assert manifest["tables"]["messages"]["changes"] == {"status": 1, "last_error": 1}

    later = ["diff", "--replica", primary.url, "--from", end, "--cache-dir", str(cache), "--out", str(out)]
    assert main(later) == 0
    assert "the replica has none in between" in capsys.readouterr().out
    assert not list(out.glob("*.parquet")), "what an earlier diff wrote is replaced"


REFUSED = [
    (["--from", "BEGIN", "--to", "BEGIN"], 64, "so nothing can lie between them: name an earlier one"),
    (["--from", "END", "--to", "BEGIN"], 64, "runs backwards"),
    (
        ["--from", "BEGIN", "--table", "mesages"],
        64,
        "neither position has a table 'mesages'; their tables: accounts,",
    ),
    (["--from", "yesterday"], 64, "is no timestamp: write it like 2026-03-01T12:00:00Z"),
    (["--from", "2001-01-01T00:00:00Z"], 66, "its oldest position is from"),
    (["--from", "2999-01-01T00:00:00Z"], 64, "is in the future: the newest position of the replica is from 20"),
    (["--from", "BEGIN", "--to", "2999-01-01T00:00:00Z"], 64, "is in the future: the newest position"),
    (["--from", "ff"], 66, "the nearest are"),
    (["--from", "BEGIN", "--out", "OTHER"], 64, "holds other files than those of a diff"),
    (["--from", "BEGIN", "--rows", "0"], 64, "is no number of rows"),
]


def test_what_can_not_be_compared_is_refused_with_what_to_do(primary, position, cache, capsys, tmp_path):
    primary.receive(1)
    begin = position()
    primary.receive(1)
    end = position()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.parquet").write_bytes(b"")
    names = {"BEGIN": begin, "END": end, "OTHER": str(tmp_path / "other")}
    for arguments, code, words in REFUSED:
        given = [names.get(each, each) for each in arguments]
        assert exit_code(["diff", "--replica", primary.url, "--cache-dir", str(cache), *given]) == code, arguments
        assert words in capsys.readouterr().err
    assert (tmp_path / "other" / "mine.parquet").exists()
