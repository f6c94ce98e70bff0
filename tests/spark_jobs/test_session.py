"""The session in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.session import java_options

ROOT = Path(__file__).parents[2]
SCRIPT = """
from spark_jobs.session import session
spark = session("tests")
print(spark.range(7).count(), spark.sparkContext._jvm.System.getProperty("java.io.tmpdir"))
"""


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
