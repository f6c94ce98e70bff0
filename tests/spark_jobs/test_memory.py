"""Jobs over inputs that are larger than the heap of the Java that runs them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import compute as pc
from pyarrow import dataset

ROOT = Path(__file__).parents[2]
NOON = 1_760_011_200_000  # 2025-10-09 12:00 UTC
DAY_MS = 86_400_000
ROWS = 540_000
CHANNELS = 4
PEOPLE = 60_000
HEAP_MB = 256

# Long names make the columns that the jobs read larger than the heap, with few rows to write.
FILL = f"""
    WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS} - 1)
    INSERT INTO messages (message_id, id_prefix, channel, sender, sender_id, message, agent, session_id, status,
                          trigger, created_at, updated_at)
    SELECT 'm_' || i, 'm', 'telegram.' || (i % {CHANNELS}) || replace(hex(zeroblob(300)), '0', 'c'), 'ann',
           (i % {PEOPLE}) || replace(hex(zeroblob(200)), '0', 'p'), '', 'a', 1, 'completed', 1,
           {NOON} + (i % 2) * {DAY_MS}, {NOON}
      FROM n
"""
JOBS = """
import sys
from spark_jobs.__main__ import main
from spark_jobs.session import session
heap = session("tests").sparkContext._jvm.Runtime.getRuntime().maxMemory()
assert heap <= HEAP_MB * 2**20, heap
url, mart, cache, out = sys.argv[1:]
assert main(["message_volume", "--replica", url, "--cache-dir", cache, "--out", out + "/volume"]) == 0
assert main(["people", "--mart", mart, "--out", out + "/people"]) == 0
""".replace("HEAP_MB", str(HEAP_MB))


def total(folder, column):
    return pc.sum(dataset.dataset(str(folder / "parquet"), format="parquet").to_table(columns=[column])[column]).as_py()


@pytest.mark.spark
@pytest.mark.long
def test_an_input_twice_as_large_as_the_heap_is_counted_whole(primary, cache, tmp_path):
    primary.execute(FILL)
    ((size,),) = primary.execute("SELECT sum(length(channel) + length(sender_id)) FROM messages")
    assert size > 2 * HEAP_MB * 2**20
    primary.replicate()
    mart, out = str(tmp_path / "mart"), tmp_path / "out"
    publish = ["-m", "spark_jobs", "publish", "--replica", primary.url, "--mart", mart, "--cache-dir", str(cache)]
    subprocess.run([sys.executable, *publish], cwd=ROOT, check=True, timeout=300, stdout=subprocess.DEVNULL)
    # Spark keeps 300 MB for itself, unless it is told otherwise.
    own = f"--driver-memory {HEAP_MB}m --conf spark.testing.reservedMemory={32 * 2**20} pyspark-shell"
    done = subprocess.run(
        [sys.executable, "-c", JOBS, primary.url, mart, str(cache), str(out)],
        cwd=ROOT,
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": own},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (total(out / "volume", "received"), total(out / "volume", "completed")) == (ROWS, ROWS)
    assert total(out / "people", "messages") == ROWS
    # A person writes on one of the days and in one of the channels, whose numbers divide that of the people.
    assert total(out / "people", "active") == PEOPLE
