"""A class-data archive, which halves the start of Java (160 MB in the user's cache, for each Java and Spark).

The first job of the command line writes it after it has printed its result, some seconds; every later session reads it.
``python -m spark_jobs.session`` makes it ahead of time, in an image for example. Without it, or if Java finds it
stale, only the start is slower.
"""

import hashlib
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pyspark

from shared.core.errors import ConfigInvalid
from shared.db.engine.owner_only import make_folder

_QUIET = ("-XX:+IgnoreUnrecognizedVMOptions", "-Xlog:disable")
_LEFT_SECONDS = 86_400.0  # a part this old was left by a job that was killed
_WRITE_SECONDS = 120.0


def found() -> Path | None:
    """The archive for this Java and this Spark, or None.

    Java checks that the archive is its own, and starts without it otherwise. It does not check that the file is whole,
    and crashes with a part of it, so the name contains the size.

    Raises:
        ConfigInvalid: there is no Java.
    """
    for path in _folder().glob(f"{_name()}-*.jsa"):
        if path.stem.endswith(f"-{path.stat().st_size}"):
            return path
    return None


def reading(archive: Path) -> Sequence[str]:
    """Java's options to start from *archive*."""
    return (f"-XX:SharedArchiveFile={archive}", *_QUIET)


def new_part() -> Path | None:
    """A file for Java to write an archive to at its end; None where the cache can't be written."""
    folder = _folder()
    try:
        make_folder(folder)
        for left in folder.glob("*.part"):
            if time.time() - left.stat().st_mtime > _LEFT_SECONDS:
                left.unlink()
    except OSError:
        return None
    return folder / f"{_name()}-{secrets.token_hex(4)}.part"


def writing(part: Path) -> Sequence[str]:
    """Java's options to write an archive to *part* at its end."""
    return (f"-XX:ArchiveClassesAtExit={part}", *_QUIET)


def keep(part: Path, java: "subprocess.Popen[bytes]") -> Path | None:
    """End *java*, whose session has stopped, and give the archive that it writes its name; None if it wrote none."""
    try:
        if java.stdin is not None:
            java.stdin.close()  # Java ends with its input
        java.wait(timeout=_WRITE_SECONDS)
        if java.returncode or not part.exists():
            return None
        return part.rename(part.with_name(f"{_name()}-{part.stat().st_size}.jsa"))
    except (OSError, subprocess.TimeoutExpired):
        return None
    finally:
        part.unlink(missing_ok=True)


def _folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "postroom" / "java"


def _name() -> str:
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "java")
    if not java.is_file():
        raise ConfigInvalid(
            "Spark needs Java 17 or newer: install it (Debian and Ubuntu: apt-get install default-jre-headless), or "
            "set JAVA_HOME to it"
        )
    java = java.resolve()
    made_for = f"{java} {java.stat().st_mtime_ns} {pyspark.__version__} {Path(pyspark.__file__).resolve()}"
    return "spark-" + hashlib.sha256(made_for.encode()).hexdigest()[:16]
