"""An export has every row of one instant, or says why not; of one person, theirs alone."""

import base64
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from pyarrow import parquet as pq

from emulator.base import errors
from emulator.moving import export, export_files, export_page
from emulator.moving.export import ExportedPerson
from shared.conversation.access import people
from shared.db.engine import schema
from shared.db.engine.connection import open_connection, rows, transaction
from shared.db.views.portable import NOT_TAKEN, TABLES
from tests.forks import FORKS, run_crew
from tests.other_user import become_nobody, needs_root
from tests.shared.db.engine.earlier_databases import make_first
from tests.support import NOW, column

PAGE = Path(__file__).parents[3] / "docs/moving.md"
ANA = ExportedPerson("telegram", "4711")


def row(conn: apsw.Connection, table: str, **given: Any) -> None:
    """A row; each column that is not given has a value of its type, another one in each row."""
    (number,) = column(conn, f"SELECT count(*) + 1 FROM {table}")
    made = {"integer": number, "text": f'["{number}"]', "blob": b"\x00\xff", "real": 0.5}
    kinds = dict(rows(conn, "SELECT name, lower(type) FROM pragma_table_info(:table)", {"table": table}))
    values = {**{name: made[kind] for name, kind in kinds.items()}, **given}
    marks = ", ".join(f":{name}" for name in values)
    conn.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", values)


@pytest.fixture
def full(conn: apsw.Connection, db: Path) -> apsw.Connection:
    """A database without rows, which takes any."""
    tables = column(conn, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    conn.execute("PRAGMA foreign_keys = 0; PRAGMA ignore_check_constraints = 1")
    with transaction(conn):
        for (trigger,) in rows(conn, "SELECT name FROM sqlite_schema WHERE type = 'trigger'"):
            conn.execute(f"DROP TRIGGER {trigger}")
        for table in tables:
            if table != "meta":
                conn.execute(f"DELETE FROM {table}")
                for _ in range(3):
                    row(conn, table, **({"is_default": 0} if table == "agents" else {}))
    return conn


def lay(folder: Path, *paths: str) -> None:
    """Write files."""
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)


def read(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]


def test_each_table_is_taken_or_named_with_a_reason(conn: apsw.Connection) -> None:
    every = column(conn, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    taken = [table.name for table in TABLES]
    assert sorted([*taken, *NOT_TAKEN]) == sorted(every)
    assert len(set(taken)) == len(taken)
    for table in TABLES:
        known = column(conn, "SELECT name FROM pragma_table_info(:table)", table=table.name)
        assert {*table.left_out} < {*known}


def test_the_page_in_the_docs_is_what_the_code_says() -> None:
    again = f"replace the end of docs/moving.md, from {export_page.HEADING!r}: python -m emulator.moving.export_page"
    text = PAGE.read_text()
    assert text[text.index(export_page.HEADING) :] == export_page.part(), again


def test_both_formats_have_every_row_and_the_same_values(full: apsw.Connection, db: Path, tmp_path: Path) -> None:
    first = export.write(db, tmp_path / "no", tmp_path / "json", form="json", now_ms=NOW)
    second = export.write(db, tmp_path / "no", tmp_path / "parquet", form="parquet", now_ms=NOW)
    for table in TABLES:
        facts = first["tables"][table.name]
        stored = [
            {
                name: base64.b64encode(value).decode() if isinstance(value, bytes) else value
                for name, value in zip(facts["columns"], each, strict=True)
            }
            for each in rows(full, f"SELECT {', '.join(facts['columns'])} FROM {table.name} ORDER BY 1, 2")
        ]
        assert facts["rows"] == second["tables"][table.name]["rows"] == len(stored) == 3
        assert read(tmp_path / "json", table.name) == stored
        assert pq.read_table(tmp_path / "parquet" / f"{table.name}.parquet").to_pylist() == stored
        assert not {*table.left_out} & {*facts["columns"]}
    assert first["leftOut"] == dict(NOT_TAKEN)
    assert (first["format"], first["exportedAt"], first["person"]) == ("json", NOW, None)
    assert first["schema"] == max(schema.migrations())


def test_the_manifest_names_every_file_with_its_hash(full: apsw.Connection, db: Path, tmp_path: Path) -> None:
    agents = tmp_path / "agents"
    full.execute("UPDATE agents SET folder = CASE rowid WHEN 1 THEN 'team' WHEN 2 THEN 'team/nova' END")
    lay(agents, "team/nova/MEMORY.md", "team/nova/skills/x/SKILL.md", "stray/x.md")
    lay(agents, "team/nova/sessions/s1/inbox/m1/a.txt", "team/nova/sessions/s1/home/key", "team/sessions/s2/claude/key")
    (agents / "team/link").symlink_to("/etc/hostname")
    (agents / "team/sessions/s2/home").symlink_to("/etc")  # of the program alone, as what it has there
    lay(db.with_name("p.db.files"), "file_1/report.txt")
    target = tmp_path / "out"
    export.write(db, agents, target, form="json", now_ms=NOW)
    manifest = json.loads((target / "manifest.json").read_text())
    assert [each["path"] for each in manifest["files"]] == [
        "agents/team/nova/MEMORY.md",
        "agents/team/nova/sessions/s1/inbox/m1/a.txt",
        "agents/team/nova/skills/x/SKILL.md",
        "files/file_1/report.txt",
    ]
    assert manifest["filesLeftOut"] == {"agents/team/link": "it is a link, and links are not followed"}
    named = {each["file"]: each["sha256"] for each in manifest["tables"].values()}
    named |= {each["path"]: each["sha256"] for each in manifest["files"]}
    there = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert there == named.keys() | {"manifest.json"}
    for name, digest in named.items():
        assert hashlib.sha256((target / name).read_bytes()).hexdigest() == digest
    assert {path.stat().st_mode & 0o777 for path in target.rglob("*") if path.is_file()} == {0o600}
    assert target.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_the_operator_linked_is_the_agent_s(full: apsw.Connection, db: Path, tmp_path: Path) -> None:
    full.execute("UPDATE agents SET folder = 'nova' WHERE rowid = 1")
    lay(tmp_path / "large disk", "MEMORY.md")
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents/nova").symlink_to(tmp_path / "large disk")
    manifest = export.write(db, tmp_path / "agents", tmp_path / "out", form="json", now_ms=NOW)
    assert [each["path"] for each in manifest["files"]] == ["agents/nova/MEMORY.md"]


@needs_root
def test_what_this_user_may_not_read_is_in_the_manifest(tmp_path: Path) -> None:
    agents = tmp_path / "agents"
    lay(agents, "nova/MEMORY.md", "nova/mine.md", "nova/mine/x.md", "nova/sessions/s/inbox/m1/a.txt")
    for path in (agents, *agents.rglob("*")):
        path.chmod(0o755)
    for name in ("mine.md", "mine", "sessions/s/inbox"):
        (agents / "nova" / name).chmod(0o000)
    tmp_path.chmod(0o755)
    (tmp_path / "new").mkdir()
    (tmp_path / "new").chmod(0o777)
    assert run_crew([FORKS.Process(target=copy_as_nobody, args=(tmp_path,))]) == [0]


def copy_as_nobody(folder: Path) -> None:
    os.chdir(folder)  # the folders above are root's alone
    become_nobody()
    found = export_files.copy(Path("new"), Path("agents"), Path("no"), export_files.FilesWanted(["nova"]))
    told = [(each.path, each.problem) for each in found]
    assert told == [
        ("agents/nova/MEMORY.md", ""),
        ("agents/nova/mine", "this user may not read it"),
        ("agents/nova/mine.md", "this user may not read it"),
        ("agents/nova/sessions/s/inbox", "this user may not read it"),
    ], told


def test_a_database_of_another_release_is_refused_with_what_to_do(tmp_path: Path) -> None:
    make_first(tmp_path / "p.db").close()
    with pytest.raises(errors.InvalidInput, match=r"has schema 1, and this release .*`emulator upgrade`"):
        export.write(tmp_path / "p.db", tmp_path / "no", tmp_path / "out", form="json", now_ms=NOW)
    assert not (tmp_path / "out").exists()


def test_all_tables_are_of_one_instant(full: apsw.Connection, db: Path, tmp_path: Path) -> None:
    """Rows come while the first table is written."""
    counts: list[int] = []

    def write(path: Path, of: dict[str, str], found: Iterator[tuple[Any, ...]]) -> int:
        if not counts:
            with transaction(full):
                row(full, "agents", id="late", is_default=0)
                row(full, "alert_tellings")
        path.touch()
        counts.append(len(list(found)))
        return counts[-1]

    reader = open_connection(db, readonly=True)
    tables, _ = export.write_tables(reader, tmp_path, write, "json", None)
    reader.close()
    assert {facts["rows"] for facts in tables.values()} == {3}


def test_a_folder_with_something_in_it_is_refused_and_half_an_export_never_left(
    full: apsw.Connection, db: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine").touch()
    with pytest.raises(errors.InvalidInput, match="nothing was written"):
        export.write(db, tmp_path / "no", tmp_path / "out", form="json", now_ms=NOW)
    with pytest.raises(errors.DoesNotExist, match="no database"):
        export.write(tmp_path / "none.db", tmp_path / "no", tmp_path / "new", form="json", now_ms=NOW)
    torn = tmp_path / "torn.db"
    torn.write_bytes(b"nonsense" * 1000)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(errors.EmulatorError, match="nothing was exported"):
        export.write(torn, tmp_path / "no", tmp_path / "new", form="json", now_ms=NOW)
    assert sorted(tmp_path.iterdir()) == before


def belongs(conn: apsw.Connection, user: int, sender: str, name: str) -> None:
    """A row of the person in every table where a person may have one. Their rows have ids from 100 * *user* on."""
    base = 100 * user
    here = {"channel": "telegram.sales", "sender_id": sender}
    row(conn, "users", id=user, channel="telegram", sender_id=sender, name=name)
    row(conn, "user_roles", id=base, user_id=user, agent=None)
    row(conn, "members", user_id=user)
    row(conn, "chats", id=base, channel="telegram.sales", platform_id=sender, is_group=0, opens_for=None, name=name)
    row(conn, "user_dms", user_id=user, chat_id=base)
    row(conn, "pairings", id=base, used_by=user)
    row(conn, "sessions", id=base, chat_id=base, private_to=None, agent="nova")
    # in a group, where others write too
    row(
        conn,
        "messages",
        id=base,
        message_id=f"m{user}",
        chat_id=9,
        session_id=9,
        message=f"by {name}",
        series_id=f"s{user}",
        **here,
    )
    row(
        conn,
        "messages",
        id=base + 1,
        message_id=f"d{user}",
        chat_id=base,
        session_id=base,
        channel="telegram.sales",
        sender_id=None,
        series_id=None,
    )
    row(
        conn,
        "responses",
        id=base,
        in_reply_to=base,
        chat_id=9,
        session_id=9,
        channel="telegram",
        sender_id=None,
        series_id=None,
        message=f"to {name}",
        files=json.dumps([{"path": f"/elsewhere/file_{user}/to-{name.lower()}.txt"}]),
    )
    row(conn, "events", id=base, message_id=f"m{user}", response_id=None)
    row(conn, "schedule_runs", id=base, series_id=f"s{user}", due_at=base)
    row(conn, "missed_runs", id=base, series_id=f"s{user}", due_at=base)
    row(conn, "agent_messages", id=base, agent_id="nova", session_id=base, content=f"by {name}", **here)
    row(conn, "memory_lines", id=base, agent="nova", people=json.dumps([["telegram", sender, name]]))
    row(conn, "chat_messages", id=base, **here)
    row(conn, "approvals", id=base, user_id=user, approver=None, status="approved", card=None)
    row(conn, "held", id=base, approval_id=base)
    row(conn, "permissions", id=base, granted_by=user)
    row(conn, "questions", id=base, session_id=base, chat_id=base, message_id="x", status="answered")
    row(conn, "dropped", id=base, **here)
    row(conn, "albums", id=base, **here)
    row(conn, "album_pieces", id=base, album_id=base)
    row(conn, "spoken", id=base, response=base)
    row(conn, "usage", id=base, messages=json.dumps([f"m{user}"]))


@pytest.fixture
def two(conn: apsw.Connection) -> apsw.Connection:
    """Ana and Ben, who both wrote in a group and to the bot."""
    conn.execute("PRAGMA foreign_keys = 0; PRAGMA ignore_check_constraints = 1")
    with transaction(conn):
        row(conn, "agents", id="nova", is_default=0, folder=None)
        row(conn, "chats", id=9, channel="telegram", platform_id="-100", is_group=1, opens_for=None)
        row(conn, "sessions", id=9, chat_id=9, private_to=None)
        belongs(conn, 1, "4711", "Ana")
        belongs(conn, 2, "42", "Ben")
    conn.execute("PRAGMA foreign_keys = 1; PRAGMA ignore_check_constraints = 0")
    return conn


def counts(manifest: dict[str, Any]) -> dict[str, int]:
    return {name: facts["rows"] for name, facts in manifest["tables"].items()}


def test_an_export_of_a_person_has_theirs_and_nobody_else_s(two: apsw.Connection, db: Path, tmp_path: Path) -> None:
    agents = tmp_path / "agents"
    lay(agents, "nova/MEMORY.md", "nova/sessions/s/inbox/m1/a.txt", "nova/sessions/s/inbox/m2/b.txt")
    lay(db.with_name("p.db.files"), "file_1/to-ana.txt", "file_2/to-ben.txt")
    manifest = export.write(db, agents, tmp_path / "out", form="json", person=ANA, now_ms=NOW)
    assert counts(manifest) == {table.name: 2 if table.name == "messages" else 1 for table in TABLES if table.person}
    assert [each["path"] for each in manifest["files"]] == [
        "agents/nova/sessions/s/inbox/m1/a.txt",
        "files/file_1/to-ana.txt",
    ]
    assert manifest["person"] == "telegram:4711"
    assert "no row of it is a person's" in manifest["leftOut"]["agents"]
    text = "".join(path.read_text() for path in tmp_path.glob("out/*.jsonl"))
    assert "by Ana" in text
    assert "to Ana" in text
    assert "Ben" not in text


def test_what_is_forgotten_is_in_the_same_list(two: apsw.Connection, db: Path, tmp_path: Path) -> None:
    """After forgetting, an export of the person has no row of the tables that say so, and those of the others."""
    with transaction(two):
        people.forget(two, 1, may_be_last_owner=True, now_ms=NOW)
    found = counts(export.write(db, tmp_path / "no", tmp_path / "out", form="json", person=ANA, now_ms=NOW))
    forgotten = {table.name for table in TABLES if table.is_forgotten}
    assert {name for name, count in found.items() if count == 0} - {"pairings"} == forgotten
    other = export.write(
        db, tmp_path / "no", tmp_path / "ben", form="json", person=ExportedPerson("telegram", "42"), now_ms=NOW
    )
    assert 0 not in counts(other).values()


def test_a_person_is_a_platform_and_an_id() -> None:
    assert export.person_of("telegram.sales:4711") == ANA
    assert export.person_of("whatsapp:1@s:2") == ExportedPerson("whatsapp", "1@s:2")
    with pytest.raises(errors.InvalidInput, match="telegram:4711"):
        export.person_of("4711")
