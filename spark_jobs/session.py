"""The Spark session of the jobs: on this machine only, in UTC, private, quiet.

Without these settings Spark listens on the network even when it runs locally, and leaves what it shuffles (people's
messages) readable to everybody. Started by ``spark-submit``, whatever was given there wins, except the loopback address
of a local master; a master elsewhere keeps its own network settings.
"""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from spark_jobs.datasource import PUSHDOWN, register

_ROOT = Path(__file__).resolve().parent.parent
_QUIET = """\
rootLogger.level = error
rootLogger.appenderRef.err.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


def session(app_name: str) -> SparkSession:
    """The session that runs, else a new one; either way it knows ``format("litestream")``.

    Changes this process: umask 077, and the workers' Python is this one.
    """
    spark = SparkSession.getActiveSession() or _start(app_name)
    register(spark)
    return spark


def _start(app_name: str) -> SparkSession:
    os.umask(0o077)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if submitted:
        SparkContext._ensure_initialized()  # type: ignore[attr-defined]  # until then SparkConf() is empty
    given = SparkConf()
    is_local = given.get("spark.master", "local[*]").startswith("local")
    builder = SparkSession.builder.appName(given.get("spark.app.name", app_name) if submitted else app_name)
    for name, value in _settings(given, is_local=is_local, submitted=submitted).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _settings(given: SparkConf, *, is_local: bool, submitted: bool) -> dict[str, str]:
    path = os.pathsep.join(filter(None, (str(_ROOT), given.get("spark.executorEnv.PYTHONPATH", ""))))
    forced = {
        PUSHDOWN: "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.executorEnv.PYTHONPATH": path,  # the workers unpickle our source by its module's name
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
        "spark.log.level": "ERROR",
        "spark.local.dir": str(private),
        "spark.sql.warehouse.dir": str(private / "warehouse"),
        "spark.sql.shuffle.partitions": str(2 * len(os.sched_getaffinity(0))),
        "spark.hadoop.fs.permissions.umask-mode": "077",
    }
    if not submitted:
        quiet = private / "log4j2.properties"
        quiet.write_text(_QUIET)
        wished["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={quiet} -Djava.io.tmpdir={private}"
    return forced | {name: value for name, value in wished.items() if not given.contains(name)}
