"""A standalone cluster on this machine: a master and two workers, each in a Java of its own."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.long]

ROOT = Path(__file__).parents[2]
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
SUBMIT = Path(sys.executable).with_name("spark-submit")
SCRIPT = """\
import socket, sys, os
from pyspark import TaskContext
from spark_jobs.datasource import open_replica
from spark_jobs.session import session

spark = session("cluster")
replica = open_replica(spark, sys.argv[1], cache_dir=sys.argv[2])
ids = replica.table("messages", columns=["id"], partitions=8)
executors = ids.rdd.mapPartitions(lambda rows: [(os.environ["SPARK_EXECUTOR_DIRS"], len(list(rows)))]).collect()
print("rows", ids.count(), sum(rows for _, rows in executors))
print("executors", len({folder for folder, _ in executors}))
"""


def started(command: list[str], said: str, environment: dict[str, str]) -> tuple[subprocess.Popen[str], str]:
    """The program, and what the line that says it is ready has in its group."""
    program = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment)
    assert program.stderr is not None
    lines = []
    for line in program.stderr:
        lines.append(line)
        if found := re.search(said, line):
            return program, found.group(1)
    raise AssertionError("".join(lines))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of the master, and the environment for a submission."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
    environment |= {"SPARK_WORKER_DIR": str(tmp_path_factory.mktemp("work")), "PYTHONPATH": str(ROOT)}
    where = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    programs = []
    try:
        master, address = started(
            [str(SPARK_CLASS), "org.apache.spark.deploy.master.Master", *where],
            r"Starting Spark master at (spark://\S+)",
            environment,
        )
        programs.append(master)
        for _ in range(2):
            command = [
                str(SPARK_CLASS),
                "org.apache.spark.deploy.worker.Worker",
                *where,
                "-c",
                "1",
                "-m",
                "1g",
                address,
            ]
            programs.append(started(command, r"Successfully registered with master (\S+)", environment)[0])
        yield address, environment
    finally:
        for program in reversed(programs):
            program.terminate()
            program.wait(timeout=60)
            assert program.stderr is not None
            program.stderr.close()


@pytest.mark.parametrize("where", ["folder", "s3"])
def test_two_workers_read_one_position(cluster, make_primary, request, cache, tmp_path, where):
    address, environment = cluster
    url = f"file://{tmp_path}/replica"
    if where == "s3":
        url = f"s3://bucket/{tmp_path.name}?endpoint={request.getfixturevalue('s3')}"
    primary = make_primary(url)
    primary.receive(40_000)
    primary.replicate()
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [str(SUBMIT), "--master", address, "--conf", "spark.executor.memory=512m"]
    command += ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.ui.enabled=false"]
    command += ["--conf", "spark.scheduler.minRegisteredResourcesRatio=1.0"]
    done = subprocess.run(
        [*command, str(script), primary.url, str(cache)],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "rows 40000 40000" in done.stdout
    assert "executors 2" in done.stdout
