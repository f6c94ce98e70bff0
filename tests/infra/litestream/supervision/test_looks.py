"""A Litestream that runs is no proof that it replicates: the supervisor asks it, and hears what it prints."""

import json
from pathlib import Path

import pytest

from infra.litestream import local_state
from shared.db.engine import meta
from shared.db.engine.connection import open_connection, transaction
from tests.infra.litestream.supervised import Scripted

CANT_READ = "sync database: db sync: sync: write ltx from db: read database page 136: EOF"


def pages_in_file(path: Path) -> int:
    return path.stat().st_size // 4096


@pytest.mark.parametrize(
    ("looks", "is_mended", "told"),
    [
        (1, False, ["behind"]),  # once may be chance
        (2, True, ["behind", "mending", "litestream_ended", "litestream_started"]),
    ],
)
def test_pages_that_litestream_can_not_read_are_checkpointed_at_the_second_look(
    database: Path, answers: list, looks: int, is_mended: bool, told: list[str]
) -> None:
    writer = open_connection(database)  # keeps the WAL alive, as the functions do
    with transaction(writer):
        for number in range(300):
            meta.put(writer, f"key {number}", "x" * 1000)
    before = pages_in_file(database)
    supervisor = Scripted(database)

    answers += [(500, json.dumps({"error": CANT_READ}))] * looks
    assert CANT_READ in (supervisor.look(looks)[-1] or "")

    assert (pages_in_file(database) > before + 50) == is_mended
    assert [event.removeprefix("replicate.") for event in supervisor.told[:4]] == told
    writer.close()


def test_a_replica_that_is_away_is_not_mended(database: Path, answers: list) -> None:
    writer = open_connection(database)
    with transaction(writer):
        meta.put(writer, "key", "x" * 100_000)
    before = pages_in_file(database)
    supervisor = Scripted(database)

    answers += [(500, '{"error": "replica sync: dial tcp: connection refused"}')] * 3
    supervisor.look(4)

    assert pages_in_file(database) == before
    assert supervisor.told == ["replicate.behind", "replicate.caught_up"]
    writer.close()


@pytest.mark.parametrize("says", ["sync error", "disk full while staging ltx file"])
def test_a_litestream_in_trouble_is_killed_and_another_begins_with_a_full_copy(database: Path, says: str) -> None:
    supervisor, note = Scripted(database), local_state.folder(database) / "note"
    note.parent.mkdir()
    note.touch()

    supervisor.look(0, f'{{"level":"ERROR","msg":"{says}","error":"no space left on device"}}')

    assert not note.exists()
    assert supervisor.told[:3] == [
        "replicate.doubtful", "replicate.litestream_ended", "replicate.litestream_started",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "says",
    [
        '"msg":"monitor error","error":"replica sync: connection refused"',
        '"msg":"sync error","error":"check database behind replica: get replica position: operation error S3"',
    ],
)
def test_trouble_with_the_replica_is_no_reason_for_a_full_copy(database: Path, answers: list, says: str) -> None:
    supervisor = Scripted(database)

    assert supervisor.look(1, f'{{"level":"ERROR",{says}}}') == [None]

    assert supervisor.told == []
