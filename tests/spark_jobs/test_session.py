"""The session in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.session import java_options
from tests.liveness import opened

ROOT = Path(__file__).parents[2]
SCRIPT = """
from spark_jobs.session import session
spark = session("tests")
print(spark.range(7).count(), spark.sparkContext._jvm.System.getProperty("java.io.tmpdir"))
"""


WHENCE = """
from pyspark.sql import functions as F
import pyspark
from spark_jobs.session import session
spark = session("tests")
whence = F.udf(lambda _: __import__("pyspark").__file__, useArrow=False)
seen = {row[0] for row in spark.range(3).select(whence("id")).collect()}
print(seen == {pyspark.__file__}, *seen)
"""


@pytest.mark.spark
@pytest.mark.long
def test_workers_import_the_pyspark_of_the_job_and_not_a_zip_file_of_it(tmp_path):
    done = subprocess.run([sys.executable, "-c", WHENCE], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("True "), done.stdout


@pytest.mark.spark
@pytest.mark.long
def test_the_folder_for_temporary_files_may_have_a_space_and_a_quote_in_its_name(tmp_path):
    folder = tmp_path / 'my "own" files, of today'
    folder.mkdir()
    environment = {**os.environ, "TMPDIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    count, private = done.stdout.strip().split(" ", 1)
    assert (count, Path(private).parent) == ("7", folder)
    assert "ERROR" not in done.stderr, "log4j has found its file"
    assert list(folder.iterdir()) == []


def test_java_compiles_quickly_for_a_small_job_only(monkeypatch, tmp_path):
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    quick = "-XX:TieredStopAtLevel=1"
    assert java_options(makes_archive=False, is_small=True) == ((quick,), None)
    assert java_options(makes_archive=False, is_small=False) == ((), None)
    options, part = java_options(makes_archive=True, is_small=True)
    assert options[:2] == (quick, f"-XX:ArchiveClassesAtExit={part}")


def test_the_session_listens_on_this_machine_only_and_leaves_nothing_readable(spark):
    pid = spark.sparkContext._gateway.proc.pid
    sockets = {path for path in opened(pid).values() if path.startswith("socket:")}
    listening = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in sockets:
                listening.append(local.rpartition(":")[0])
    loopback = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    assert listening
    assert set(listening) <= loopback
    local = Path(spark.conf.get("spark.local.dir"))
    assert local.stat().st_mode & 0o077 == 0
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
