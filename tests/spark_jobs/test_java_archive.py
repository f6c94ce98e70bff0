"""The file, with small programs in place of Java."""

import os
import subprocess
import time

import pytest

from shared.core.errors import ConfigInvalid
from spark_jobs import java_archive


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "postroom" / "java"


def ended(script):
    """A program that runs until its input ends, as the Java of a session does, and then the script."""
    return subprocess.Popen(["sh", "-c", f"cat >/dev/null; {script}"], stdin=subprocess.PIPE)


def test_java_writes_an_archive_at_its_end_and_the_next_session_reads_it(cache):
    assert java_archive.found() is None
    part = java_archive.new_part()
    kept = java_archive.keep(part, ended(f"printf classes > {part}"))
    assert kept == java_archive.found()
    assert kept.name.endswith("-7.jsa")
    assert list(cache.iterdir()) == [kept]
    assert f"-XX:SharedArchiveFile={kept}" in java_archive.reading(kept)
    assert f"-XX:ArchiveClassesAtExit={part}" in java_archive.writing(part)


def test_an_archive_that_is_not_whole_is_not_read():
    kept = java_archive.keep(part := java_archive.new_part(), ended(f"printf classes > {part}"))
    kept.write_bytes(b"cla")
    assert java_archive.found() is None


def test_an_archive_of_another_java_is_not_read(monkeypatch, tmp_path):
    java_archive.keep(part := java_archive.new_part(), ended(f"printf classes > {part}"))
    os.utime(tmp_path / "jdk" / "bin" / "java", (1, 1))
    assert java_archive.found() is None
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    with pytest.raises(ConfigInvalid, match="Spark needs Java 17"):
        java_archive.found()


@pytest.mark.parametrize("script", ["true", "printf half > {part}; exit 1"])
def test_a_java_that_wrote_nothing_or_crashed_leaves_nothing(cache, script):
    part = java_archive.new_part()
    assert java_archive.keep(part, ended(script.format(part=part))) is None
    assert list(cache.iterdir()) == []


def test_what_a_killed_job_left_goes_after_a_day(cache):
    old, fresh = java_archive.new_part(), java_archive.new_part()
    old.touch()
    fresh.touch()
    os.utime(old, (time.time() - 90_000,) * 2)
    java_archive.new_part()
    assert list(cache.iterdir()) == [fresh]


def test_without_a_cache_no_archive_is_made(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert java_archive.new_part() is None
