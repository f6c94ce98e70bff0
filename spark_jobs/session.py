"""The Spark session of the jobs: on this machine only, in UTC, private, quiet.

Without these settings Spark listens on the network even when it runs locally, and every user of the host can read its
shuffle files, which hold people's messages. Under ``spark-submit`` the submitted settings win, except the loopback
address of a local master; a remote master keeps its own network settings.

``python -m spark_jobs.session`` makes the class-data archive of :mod:`spark_jobs.java_archive` ahead of the first job.
"""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from shared.core.errors import ConfigInvalid
from spark_jobs import java_archive, worker_python
from spark_jobs.datasource import PUSHDOWN, register
from spark_jobs.seconds import counted

SMALL_BYTES = 500_000_000
SMALL_ROWS = 1_000_000
"""A database, or a mart, up to which a session is for a small job."""

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


def session(app_name: str, *, makes_archive: bool = False, is_small: bool = False) -> SparkSession:
    """The running session, or a new one; both know ``format("litestream")``.

    A new session changes this process: umask 077, and the workers run this Python. It stops when the process ends.

    Args:
        makes_archive: if there is no class-data archive yet, Java writes one when the process ends.
        is_small: the job reads little, so Java compiles quickly instead of well. That takes up to half less CPU: it is
            mostly the compiler's.

    Raises:
        ConfigInvalid: there is no Java.
    """
    spark = SparkSession.getActiveSession() or _start(app_name, makes_archive=makes_archive, is_small=is_small)[0]
    register(spark)
    return spark


def _start(app_name: str, *, makes_archive: bool, is_small: bool = False) -> tuple[SparkSession, Path | None]:
    """The session, and the file to which its Java writes an archive at its end, if it does."""
    os.umask(0o077)
    _use_python(sys.executable)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if submitted:
        SparkContext._ensure_initialized()  # until then SparkConf() is empty
    given = SparkConf()
    is_local = given.get("spark.master", "local[*]").startswith("local")
    options, part = (None, None) if submitted else java_options(makes_archive=makes_archive, is_small=is_small)
    settings = _settings(given, is_local=is_local, java_options=options)
    settings["spark.app.name"] = given.get("spark.app.name", app_name) if submitted else app_name
    with counted("java"):
        SparkContext._ensure_initialized(conf=SparkConf().setAll(list(settings.items())))
    with counted("session"):
        builder = SparkSession.builder
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
    atexit.register(_stop, spark, part)
    return spark, part


def _use_python(program: str) -> None:
    """Start workers, and what Spark asks Python while it plans, with *program*."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = program


def java_options(*, makes_archive: bool, is_small: bool) -> tuple[Sequence[str], Path | None]:
    """Java's options, and the file to which it writes an archive at its end, if it does."""
    compiler = ("-XX:TieredStopAtLevel=1",) if is_small else ()
    found = java_archive.found()
    if found is not None:
        return (*compiler, *java_archive.reading(found)), None
    part = java_archive.new_part() if makes_archive else None
    return (*compiler, *(java_archive.writing(part) if part else ())), part


def _stop(spark: SparkSession, part: Path | None) -> None:
    gateway = spark.sparkContext._gateway
    if spark.sparkContext._jsc is not None:
        spark.stop()
    if part is not None and gateway is not None:
        java_archive.keep(part, gateway.proc)


def build_archive() -> Path:
    """Make the class-data archive unless it exists: run a small job in a Java that writes it at its end.

    Raises:
        ConfigInvalid: no Java, or one that can't make archives.
    """
    if java_archive.found() is None:
        spark, part = _start("archive", makes_archive=True)
        rows = spark.createDataFrame([(day, "a") for day in range(10)], "day long, name string")
        rows = rows.withColumn("name", F.udf(str.upper, useArrow=False)("name"))
        rows.groupBy("day", "name").count().write.format("noop").mode("overwrite").save()
        _stop(spark, part)
    found = java_archive.found()
    if found is None:
        raise ConfigInvalid("Java wrote no class-data archive: jobs run as before, and Java keeps its slow start")
    return found


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
        _use_python(worker_python.write(private, os.pathsep.join(filter(None, (path, os.environ.get("PYTHONPATH"))))))
        quiet = private / "log4j2.properties"
        quiet.write_text(_QUIET)
        # An address, because Log4j splits names at commas.
        options = [f"-Dlog4j2.configurationFile={quiet.as_uri()}", f"-Djava.io.tmpdir={private}", *java_options]
        wished["spark.driver.extraJavaOptions"] = " ".join(map(_as_option, options))
    return forced | {name: value for name, value in wished.items() if not given.contains(name)}


def _as_option(text: str) -> str:
    """An option of Java's as Spark splits them: a folder may have a space or a quote in its name."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


if __name__ == "__main__":
    sys.stdout.write(f"{build_archive()}\n")
