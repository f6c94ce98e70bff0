"""The script that Spark's workers are started with."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark

from spark_jobs import worker_python


def test_it_is_this_python_with_the_given_path_and_the_given_arguments(tmp_path):
    folder = tmp_path / "my 'own' \"files\""
    folder.mkdir()
    script = worker_python.write(folder, f"{folder}/a:b c")
    code = "import os, sys; print(sys.executable, os.environ['PYTHONPATH'], sys.argv[1:])"
    environment = {**os.environ, "PYTHONPATH": "pyspark.zip"}
    done = subprocess.run([script, "-c", code, "x y", "'"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{sys.executable} {folder}/a:b c {['x y', chr(39)]}\n"
    assert Path(script).stat().st_mode & 0o077 == 0


def test_where_no_file_may_be_run_it_is_this_python(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # as on a file system that is mounted with noexec
    assert worker_python.write(tmp_path, "a") == sys.executable


def test_a_package_counts_as_installed_where_every_start_of_this_python_finds_it(tmp_path):
    assert worker_python.is_installed(Path(pyspark.__file__))
    assert not worker_python.is_installed(tmp_path / "spark/python/pyspark/__init__.py")
