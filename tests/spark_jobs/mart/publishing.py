"""What a test of the mart writes to the database, and reads of the mart."""

from pyarrow import parquet as pq

from spark_jobs.mart.places import present
from spark_jobs.mart.tables import BY_NAME

NOON = 1_760_011_200_000  # 2025-10-09 12:00 UTC
DAY_MS = 86_400_000
HOUR_MS = 3_600_000
KEY = "a key of more than sixteen characters"


def rows_of(place, table):
    """The rows of the mart's files, by id, as a reader of the manifest finds them."""
    manifest, files, base = present(place)
    found = []
    for day, each in manifest.tables[table].days.items():
        for name in each.files:
            rows = pq.ParquetFile(files.open_input_file(f"{base}/{name}")).read().to_pylist()
            if by := BY_NAME[table].by:
                assert {row[by].date().isoformat() for row in rows} == {day}
            found += rows
    return sorted(found, key=lambda row: str(row.get("id", row)).zfill(20))


def event(primary, kind, at, *, message_id=None, response_id=None, data="{}"):
    primary.execute(
        "INSERT INTO events (type, message_id, response_id, agent, data, created_at) VALUES (?, ?, ?, 'a', ?, ?)",
        [(kind, message_id, response_id, data, at)],
    )
