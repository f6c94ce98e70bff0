"""The Spark session of the jobs: on this machine only, in UTC, private, quiet.

Without these settings Spark listens on the network even when it runs locally, and every user of the host can read its
shuffle files, which hold people's messages. Under ``spark-submit`` the submitted settings win, except the loopback
address of a local master; a remote master keeps its own network settings.

``python -m spark_jobs.session`` makes a class-data archive, which halves the start of Java (160 MB in the user's cache,
half a minute, once for each Java and Spark). Without it, or if Java finds it stale, only the start is slower.
"""

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from shared.core.errors import ConfigInvalid
from spark_jobs.datasource import PUSHDOWN, register

_ROOT = Path(__file__).resolve().parent.parent
_QUIET = """\
rootLogger.level = warn
rootLogger.appenderRef.err.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
logger.libraries.name = org
logger.libraries.level = error
logger.gateway.name = org.apache.spark.api.python
logger.gateway.level = warn
"""


def session(app_name: str) -> SparkSession:
    """The running session, or a new one; both know ``format("litestream")``.

    A new session changes this process: umask 077, and the workers run this Python. It stops when the process ends.

    Raises:
        ConfigInvalid: there is no Java.
    """
    spark = SparkSession.getActiveSession() or _start(app_name)
    register(spark)
    return spark


def _start(app_name: str, java_options: Sequence[str] | None = None) -> SparkSession:
    os.umask(0o077)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if submitted:
        SparkContext._ensure_initialized()  # until then SparkConf() is empty
    given = SparkConf()
    is_local = given.get("spark.master", "local[*]").startswith("local")
    builder = SparkSession.builder.appName(given.get("spark.app.name", app_name) if submitted else app_name)
    if java_options is None and not submitted:
        made = archive()
        java_options = (f"-XX:SharedArchiveFile={made}", "-Xlog:disable") if made else ()
    for name, value in _settings(given, is_local=is_local, java_options=java_options).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    atexit.register(_stop, spark)
    return spark


def _stop(spark: SparkSession) -> None:
    if spark.sparkContext._jsc is not None:
        spark.stop()


def archive() -> Path | None:
    """The class-data archive for this Java and this Spark, or None.

    Java checks that the archive is its own, and starts without it otherwise. It does not check that the file is whole,
    and crashes with a part of it, so the name contains the size.
    """
    for path in _archives().glob(f"{_archive_name()}-*.jsa"):
        if path.stem.endswith(f"-{path.stat().st_size}"):
            return path
    return None


def build_archive() -> Path:
    """Make the archive unless it exists: run a small job in a Java that writes the archive at its end.

    Raises:
        ConfigInvalid: no Java, or one that can't make archives.
    """
    made = archive()
    if made is not None:
        return made
    folder_of_archives = _archives()
    folder_of_archives.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder_of_archives) as folder:
        part = Path(folder) / "spark.jsa"
        spark = _start("archive", java_options=(f"-XX:ArchiveClassesAtExit={part}", "-Xlog:disable"))
        rows = spark.createDataFrame([(day, "a") for day in range(10)], "day long, name string")
        rows = rows.withColumn("name", F.udf(str.upper, useArrow=False)("name"))
        rows.groupBy("day", "name").count().write.partitionBy("day").parquet(f"{folder}/rows")
        spark.read.parquet(f"{folder}/rows").filter("day > 1").collect()
        java = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
        spark.stop()
        java.stdin.close()  # Java ends with its input
        java.wait(timeout=120)
        if not part.exists():
            raise ConfigInvalid("Java wrote no class-data archive: jobs run as before, and Java keeps its slow start")
        return part.rename(folder_of_archives / f"{_archive_name()}-{part.stat().st_size}.jsa")


def _archives() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "postroom" / "java"


def _archive_name() -> str:
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


def _settings(given: SparkConf, *, is_local: bool, java_options: Sequence[str] | None) -> dict[str, str]:
    """The settings of the session; *java_options* is None when Java already runs."""
    path = os.pathsep.join(filter(None, (str(_ROOT), given.get("spark.executorEnv.PYTHONPATH", ""))))
    forced = {
        PUSHDOWN: "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.executorEnv.PYTHONPATH": path,  # the workers unpickle the source by the name of its module
    }
    if not is_local:
        return forced
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    private = Path(tempfile.mkdtemp(prefix="postroom-spark-"))  # 0700
    atexit.register(shutil.rmtree, private, ignore_errors=True)
    forced |= {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    wished = {
        "spark.master": "local[*]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(private),
        "spark.sql.warehouse.dir": str(private / "warehouse"),
        "spark.sql.shuffle.partitions": str(2 * len(os.sched_getaffinity(0))),
        "spark.hadoop.fs.permissions.umask-mode": "077",
    }
    if java_options is None:
        wished["spark.log.level"] = "ERROR"
    else:
        quiet = private / "log4j2.properties"
        quiet.write_text(_QUIET)
        wished["spark.driver.extraJavaOptions"] = " ".join(
            [f"-Dlog4j2.configurationFile={quiet}", f"-Djava.io.tmpdir={private}", *java_options]
        )
    return forced | {name: value for name, value in wished.items() if not given.contains(name)}


if __name__ == "__main__":
    sys.stdout.write(f"{build_archive()}\n")
